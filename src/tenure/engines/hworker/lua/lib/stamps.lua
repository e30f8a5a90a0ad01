-- lib stamps: times as hworker writes them, JSON of an ISO 8601 time in UTC with up to 12 digits behind the second.

-- The date of a number of days since 1970, in a calendar with years that begin in March (H. Hinnant, "chrono-compatible
-- low-level date algorithms").
local function date_of(days)
  local shifted = days + 719468
  local era = math.floor(shifted / 146097)
  local day = shifted - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  local rest = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * rest + 2) / 153)
  local number = month < 10 and month + 3 or month - 9
  return year + era * 400 + (number <= 2 and 1 or 0), number, rest - math.floor((153 * month + 2) / 5) + 1
end

-- A time as text. The six digits below the microsecond come from a token, so no two claims write the same time.
local function stamp(micros, token)
  local seconds = math.floor(micros / 1000000)
  local days = math.floor(seconds / 86400)
  local year, month, day = date_of(days)
  local of_day = seconds - days * 86400
  return string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%06d%06dZ"', year, month, day, math.floor(of_day / 3600),
    math.floor(of_day / 60) % 60, of_day % 60, micros % 1000000, token % 1000000)
end

local function is_stamp(text)
  local digits_behind = string.match(text, '^"%d+%-%d%d%-%d%dT%d%d:%d%d:%d%d(%.?%d*)Z"$')
  return digits_behind ~= nil and #digits_behind <= 13
end

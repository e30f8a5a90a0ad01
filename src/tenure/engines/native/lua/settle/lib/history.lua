-- lib history: the errors of failed attempts, one JSON object a line, the newest first. They are bounded in number and
-- bytes.
-- Needs: digits. Defines: dated, with_earlier.

-- The error of an attempt that ends now, with its number and its time.
local function dated(body, attempt, time)
  if string.byte(body) ~= 123 then return body end
  return '{"attempt":"' .. attempt .. '","at":"' .. digits(time) .. '",' .. string.sub(body, 2)
end

-- This error, and after it those that the text in `tries` has, as far as they fit. The oldest are dropped.
local function with_earlier(body, tries)
  local errors, bytes = { body }, #body
  for line in string.gmatch(string.match(tries or '', '\n(.*)$') or '', '[^\n]+') do
    bytes = bytes + 1 + #line
    if #errors >= @ERRORS_KEPT@ or bytes > @ERRORS_BYTES@ then break end
    errors[#errors + 1] = line
  end
  return table.concat(errors, '\n')
end

-- lib config: the numbers of the engine, from their JSON. Each is read when it is first asked for, since most calls
-- need few of them.
--@include number
local function config_of(text)
  return setmetatable({}, { __index = function(numbers, name)
    numbers[name] = number_in(text, name)
    return numbers[name]
  end })
end

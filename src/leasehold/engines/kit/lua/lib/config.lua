-- lib config: the numbers of the engine, from their JSON. Each is read when it is first asked for, since most calls need few of them.
local function config_of(text)
  return setmetatable({}, { __index = function(numbers, name)
    numbers[name] = tonumber(string.match(text, '"' .. name .. '":(%d+)'))
    return numbers[name]
  end })
end

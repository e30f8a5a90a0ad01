-- lib number: one number of the engine, from their JSON.
local function number_in(text, name) return tonumber(string.match(text, '"' .. name .. '":(%d+)')) end

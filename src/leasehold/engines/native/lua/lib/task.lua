-- lib task: which task a job is for, as its record says; '*' for a raw payload, and for a record that is none.
local function task_of(record)
  return string.match(record or '', '^%d+ ([^ \n]+)') or '*'
end

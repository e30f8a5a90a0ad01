-- lib task: the task of a job, from its record; '*' for a raw payload and for a malformed record.
-- Defines: task_of.
local function task_of(record) return string.match(record or '', '^%d+ ([^ \n]+)') or '*' end

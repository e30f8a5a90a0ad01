-- lib due: entries of `scheduled`, with the times when jobs are due as scores: `<when enqueued>/<id>`, with `*` in the
-- place of `/` for a job that has a shape. Only the records of such jobs are read when they are due. Jobs that are due
-- in the same millisecond keep the order in which they were enqueued: see lib tokens.
-- Defines: due_entry, due_id, due_ids.
--@include shapeof
local function due_entry(id, record)
  return (string.match(record or '', '^%d+') or '0') .. (shape_of(record) == '' and '/' or '*') .. id
end

-- The id of an entry, and whether the job has a shape.
local function due_id(entry)
  local mark, id = string.match(entry, '^%d+([/*])(.*)$')
  return id or entry, mark == '*'
end

local function due_ids(entries)
  local ids = {}
  for n, entry in ipairs(entries) do ids[n] = due_id(entry) end
  return ids
end

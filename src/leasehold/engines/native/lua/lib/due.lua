-- lib due: entries of `scheduled`, whose scores are when they are due: `<when it was enqueued>/<id>`, with `*` in the place of
-- `/` for a job that has a shape: only of these the records are looked at when they are due. Of jobs that are due in
-- the same millisecond, those that were enqueued first come first: see lib begun.
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
  for n, entry in ipairs(entries) do
    ids[n] = due_id(entry)
  end
  return ids
end

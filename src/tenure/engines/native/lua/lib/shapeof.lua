-- lib shapeof: the shape in a record: see lib shape.
-- Defines: shape_of.

-- The words of a record's shape; '' for a job that waits in `ready`.
local function shape_of(record)
  return string.match(record or '', '^[^\n]- ([afgklmnopux]=[^\n]*)') or ''
end

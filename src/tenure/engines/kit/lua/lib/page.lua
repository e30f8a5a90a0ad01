-- lib page: jobs on their way to another queue. The list `moving` has a header (name of the move, its destination, when
-- it began) and a row of each job, as MessagePack. No other move begins while it is there.
local page = { moving = key('@MOVING@'), count = 0 }

-- Begin a page of at most `left` jobs and `bytes`, one job at least. False: another move is under way.
function page.begin(header, left, bytes)
  page.header, page.left, page.bytes = header, left, bytes
  return call('EXISTS', page.moving) == 0
end

function page.is_over(size) return page.left <= 0 or page.count > 0 and size > page.bytes end

-- Write the row before anything of the job is removed: an error between the two must not lose it.
function page.note(row, size)
  if page.count == 0 then call('RPUSH', page.moving, cmsgpack.pack(page.header)) end
  call('RPUSH', page.moving, cmsgpack.pack(row))
  page.count, page.left, page.bytes = page.count + 1, page.left - 1, page.bytes - size
end

-- Return the rows, their header, and the rows as they are kept. The name in the header is '' if no move is under way.
function page.rows()
  local kept, rows = call('LRANGE', page.moving, 0, -1), {}
  local header = cmsgpack.unpack(table.remove(kept, 1) or cmsgpack.pack({ '', '', 0 }))
  for n, packed in ipairs(kept) do rows[n] = cmsgpack.unpack(packed) end
  return rows, header, kept
end

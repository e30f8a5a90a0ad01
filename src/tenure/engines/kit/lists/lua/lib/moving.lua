-- lib moving: how jobs leave a list for a queue of another protocol, and return.
--@include leaving page
local moving = { forget = function(row, mark) leaving.forget_marks(row[2], mark) end }

-- The next job; up to `limit` phantoms in front of it go.
local function next_job(limit)
  for _ = 1, limit do
    local data = call('LINDEX', waiting, -1)
    if not data or not hold.is_phantom(data) then return data end
    call('RPOP', waiting)
  end
end

function moving.take(run)
  if call('EXISTS', waiting) == 0 then return 0 end
  local first, there = next_tokens(run.micros, run.limit), {}
  held.run_due(run.time)
  for n = 0, run.limit - 1 do
    local data = next_job(run.limit)
    if not data or page.is_over(#data) then break end
    local id = leaving.id_of(data, run.move, first + n, there)
    there[id] = true
    page.note({ id, data }, #data)
    counts.drop(data)
    call('RPOP', waiting)
  end
  return page.count
end

function moving.back(row, command)
  call(command, waiting, row[2])
  held.wake(1)
end

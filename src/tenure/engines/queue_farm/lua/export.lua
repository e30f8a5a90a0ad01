-- export: take waiting jobs out of their lanes, for a queue of another protocol. Lanes with active jobs are left alone.
-- KEYS[1] prefix
-- ARGV move to limit bytes id_most config
-- Returns: {how many ids were looked at, name of the move, its destination, ms since it began, row of a job..., id that
-- no job can have elsewhere...}
-- Invariant: a job is in its lane or in `moving` (name, destination, time, then id and row of each), never in both or
-- in none. While `moving` holds a move, the script returns it, so sending it again is harmless, and Tenure workers
-- claim nothing. A job that was deleted or has finished is dropped; the lane without a name stays, as other queues name
-- each lane; a job with an id that no job can have elsewhere goes to the end of its lane. At least one job is taken.
--@include begin find
local move, to, config = ARGV[1], ARGV[2], cjson.decode(ARGV[6])
local limit, bytes, id_most = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
allow_when_full()
check_types()
local time, moving = clock(), key('moving')

local function answer(looked, unfit)
  local kept, rows = call('LRANGE', moving, 0, -1), {}
  for i = 5, #kept, 2 do rows[#rows + 1] = cmsgpack.unpack(kept[i]) end
  local age = kept[3] and time - kept[3] or 0
  return { looked or #rows, kept[1] or '', kept[2] or '', age, rows, unfit }
end

if call('EXISTS', moving) == 1 then return answer(nil, {}) end
local looked, rows, unfit = 0, {}, {}

-- Take jobs from the front of a lane, in their order.
local function take(lane)
  local ids = call('LRANGE', queue_key(lane), -(limit - looked), -1)
  for n = #ids, 1, -1 do
    local id, job = ids[n], job_of(ids[n])
    if job and #rows > 0 and #job.data > bytes then return false end
    looked = looked + 1
    call('LREM', queue_key(lane), -1, id)
    if not job or job.finishAt then
      if config.keep == 0 then call('DEL', job_key(id)) end
    elseif id == '' or #id > id_most or string.sub(id, 1, 1) == '@' then
      call('LPUSH', queue_key(lane), id)
      unfit[#unfit + 1] = id
    else
      bytes = bytes - #job.data
      rows[#rows + 1] = { id, row_of('ready', id, job, lane) }
      call('DEL', job_key(id))
    end
  end
  return looked < limit
end

for _, lane in ipairs(call('SRANDMEMBER', wire('active'), @LANES_MOST@)) do
  local waiting, active = lengths_of(lane)
  if lane ~= '' and waiting and waiting > 0 and active == 0 then
    local goes_on = take(lane)
    place(config, time, lane)
    if not goes_on then break end
  end
end
if #rows > 0 then
  call('RPUSH', moving, move, to, time)
  for _, row in ipairs(rows) do call('RPUSH', moving, row[1], cmsgpack.pack(row[2])) end
  call('HSET', key('meta'), 'hold', time + @HOLD_MS@)
end
return answer(looked, unfit)

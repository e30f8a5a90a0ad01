-- lib moving: how jobs leave their lanes for a queue of another protocol, and return.
--@include begin back page
local moving = {}

-- Take jobs from the front of a lane, in their order. A job that was deleted or has finished is dropped; one with an id
-- that no job can have elsewhere goes to the end of its lane. Returns how many ids were looked at.
local function take_lane(run, lane, most)
  local ids, looked = call('LRANGE', queue_key(lane), -most, -1), 0
  for n = #ids, 1, -1 do
    local id, job = ids[n], job_of(ids[n])
    if job and page.is_over(#job.data) then
      page.left = 0
      break
    end
    looked = looked + 1
    call('LREM', queue_key(lane), -1, id)
    if not job or job.finishAt then
      if run.config.keep == 0 then call('DEL', job_key(id)) end
    elseif id == '' or #id > run.id_most or string.sub(id, 1, 1) == '@' then
      call('LPUSH', queue_key(lane), id)
      run.unfit[#run.unfit + 1] = id
    else
      page.note(row_of('ready', id, job, lane), #job.data)
      call('DEL', job_key(id))
    end
  end
  return looked
end

-- Lanes with active jobs are left alone, and the lane without a name stays, as no lane elsewhere can have none. While
-- a move is under way, Tenure workers claim nothing.
function moving.take(run)
  local looked = 0
  for _, lane in ipairs(call('SRANDMEMBER', wire('active'), @LANES_MOST@)) do
    local waiting, active = lengths_of(lane)
    if lane ~= '' and waiting and waiting > 0 and active == 0 then
      looked = looked + take_lane(run, lane, run.limit - looked)
      place(run.config, run.time, lane)
      if page.left <= 0 or looked >= run.limit then break end
    end
  end
  if page.count > 0 then call('HSET', key('meta'), 'hold', run.time + @HOLD_MS@) end
  return looked
end

function moving.forget() end

function moving.back(row, command, config, time)
  local id, lane = row[2], row[10]
  call('HSET', job_key(id), 'data', row[3], 'queuedAt', row[6], 'timeout', row[7], 'maxAttempts', row[8], 'attempts',
    row[4] + row[5], 'tenure:crashes', row[5], 'tenure:own', row[9], 'tenure:lane', lane)
  call(command, queue_key(lane), id)
  if not batch_of(lane) then place(config, time, lane) end
  if command == 'RPUSH' then call('HDEL', key('meta'), 'hold') end
end

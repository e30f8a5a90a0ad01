-- lib adopt: records for the failed and broken jobs of other clients, so that pages and commands know them.
--@include jobs
local ADOPT_MOST = 1000

local function adopt_one(config, time, data, state, part)
  local id = id_of(data)
  local known = job_of(id)
  if known and (known.s ~= state or known.d ~= data) then
    id = redis.sha1hex(data)
    known = job_of(id)
  end
  if known then return end
  local job = { d = data, w = '', n = 0, t = time, k = '', f = 0, c = 0, u = 0 }
  job.e = cjson.encode({ type = 'Unknown', message = 'It ended at another client, which keeps no reason.', traceback = '' })
  note_end(config, id, job, state, time, part)
end

-- Look at up to ADOPT_MOST jobs in each of the two places. Of many broken ones each call looks at some.
local function adopt(config, time)
  if call('LLEN', failed_list) ~= call('ZCARD', key('failed')) then
    local found = call('LRANGE', failed_list, 0, ADOPT_MOST - 1)
    for n = #found, 1, -1 do adopt_one(config, time, found[n], 'failed', (#found - n) / 4096) end
  end
  if call('HLEN', broken_hash) ~= call('ZCARD', key('broken')) then
    local cursor = call('HGET', key('meta'), 'adopting') or '0'
    local page = call('HSCAN', broken_hash, cursor, 'COUNT', ADOPT_MOST)
    call('HSET', key('meta'), 'adopting', page[1])
    for n = 1, #page[2], 2 do adopt_one(config, time, page[2][n], 'broken', 0) end
  end
end

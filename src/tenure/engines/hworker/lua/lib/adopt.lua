-- lib adopt: records for the failed and broken jobs of other clients, so that pages and commands know them.
--@include jobs
local ADOPT_MOST = 1000

-- The id of the record of a failed or broken job, and whether there is one.
local function record_of(data, state)
  local id, hash = name_of(data), redis.sha1hex(data)
  local own = records.of(id)
  for _, name in ipairs({ id, hash }) do
    local known = records.of(name)
    if known and known.s == state and known.d == data then return name, true end
  end
  return own and hash or id, false
end

local function adopt_one(config, time, id, data, state, score)
  local job = { d = data, w = '', n = 0, t = time, k = '', f = 0, c = 0, u = 0 }
  job.e = cjson.encode({ type = 'Unknown', message = 'It ended at another client, which keeps no reason.',
    traceback = '' })
  note_end(config, id, job, state, score)
end

-- The list has the newest failed job on the left. A job of another client comes right after the one that failed before
-- it.
local function adopt_failed(config, time)
  local found, records, score = call('LRANGE', failed_list, 0, ADOPT_MOST - 1), {}, nil
  for n = #found, 1, -1 do
    local id, is_known = record_of(found[n], 'failed')
    records[n] = { id, is_known and tonumber(call('ZSCORE', key('failed'), id)) }
    score = score or records[n][2] and records[n][2] - 1
  end
  score = score or time + config.failed_ttl
  for n = #found, 1, -1 do
    local id, known = unpack(records[n])
    score = known or score + 1 / 1024
    if not known then adopt_one(config, time, id, found[n], 'failed', score) end
  end
end

-- An original's worker files a phantom under broken.
local function remove_phantom()
  if call('HDEL', broken_hash, PHANTOM) == 0 then return end
  local id = name_of(PHANTOM)
  local job = records.of(id)
  if job then records.forget(id, job) end
  call('HINCRBY', key('meta'), 'phantoms', 1)
end

-- Look at up to ADOPT_MOST jobs in each of the two places. Each call looks at some if many are broken.
local function adopt(config, time)
  local newest = call('LINDEX', failed_list, 0)
  if newest and not is_known_newest(newest) then
    adopt_failed(config, time)
    know_newest(newest)
  end
  remove_phantom()
  if call('HLEN', broken_hash) ~= call('ZCARD', key('broken')) then
    local page = call('HSCAN', broken_hash, call('HGET', key('meta'), 'adopting') or '0', 'COUNT', ADOPT_MOST)
    call('HSET', key('meta'), 'adopting', page[1])
    for n = 1, #page[2], 2 do
      local id, is_known = record_of(page[2][n], 'broken')
      if not is_known then adopt_one(config, time, id, page[2][n], 'broken', time + config.failed_ttl) end
    end
  end
end

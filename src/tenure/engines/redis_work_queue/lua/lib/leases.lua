-- lib leases: leases on the wire. Clients up to 0.2 look at `leased_by_session:<id>`, later ones at `lease:<id>`;
-- neither reads the value. Tenure writes and reads both names: a client that holds an item under either name holds it.
-- The value of our leases is "<token> <worker>"; of a job that waits for its retry, "~<due>".

-- The keys of many ids.
local function keys_of(kind, ids)
  local names, start = {}, key(kind)
  for n, id in ipairs(ids) do names[n] = start .. id end
  return names
end

-- Whether a value belongs to one of Tenure's leases.
local function is_ours(value)
  return string.match(value, '^%d+ ') ~= nil or string.sub(value, 1, 1) == '~'
end

-- The value that counts. Another client that took the item over wrote one name, and our value is still under the other.
local function prevailing(old, new)
  if old and new and is_ours(new) then return old end
  return new or old
end

-- For each id the value that counts, and whether it is under both names; then the names, the older ones first.
local function leases_of(ids)
  local older, newer = keys_of('leased_by_session:', ids), keys_of('lease:', ids)
  local old, new = call('MGET', unpack(older)), call('MGET', unpack(newer))
  local found, whole = {}, {}
  for n = 1, #ids do found[n], whole[n] = prevailing(old[n], new[n]) or false, old[n] == new[n] end
  return found, whole, older, newer
end

local function lease_of(id)
  local found, whole = leases_of({ id })
  return found[1], whole[1]
end

-- `ms`: a text, where it is the same for many: formatting a number is slow.
local function set_lease(id, value, ms)
  call('SET', prefix .. ':lease:' .. id, value, 'PX', ms)
  call('SET', prefix .. ':leased_by_session:' .. id, value, 'PX', ms)
end

-- Renew one of our leases. Under one of the names it may have been deleted, or expired.
local function keep_lease(id, value, ms)
  if call('PEXPIRE', key('lease:' .. id), ms) + call('PEXPIRE', key('leased_by_session:' .. id), ms) < 2 then
    set_lease(id, value, ms)
  end
end

local function end_lease(id)
  call('DEL', key('lease:' .. id), key('leased_by_session:' .. id))
end

-- Whether a value belongs to a job that waits for its retry.
local function is_waiting(lease) return lease and string.sub(lease, 1, 1) == '~' end

-- Forget that an id waits for its retry, if it does.
local function forget_retry(id)
  call('ZREM', key('later'), id)
  if is_waiting(lease_of(id)) then end_lease(id) end
end

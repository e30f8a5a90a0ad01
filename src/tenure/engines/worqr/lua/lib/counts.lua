-- lib counts: what is known of the attempts of a task that waits, by its bytes.
local NO_COUNTS = { f = 0, c = 0, u = 0 }
local function name_of(data) return redis.sha1hex(data) end

local counts = {
  NONE = NO_COUNTS,
  of = function(data)
    local list = copies_of(name_of(data))
    return list[#list] or NO_COUNTS
  end,

  -- Forget the counts of the copy that goes first.
  drop = function(data)
    local name = name_of(data)
    local list = copies_of(name)
    if not table.remove(list) then return end
    if #list == 0 then
      call('HDEL', key('attempts'), name)
    else
      call('HSET', key('attempts'), name, cmsgpack.pack(list))
    end
  end,
}

-- lib counts: what is known of the attempts of a job that waits.
local NO_COUNTS = { f = 0, c = 0, u = 0 }
local counts = {
  NONE = NO_COUNTS,
  of = function(data)
    local text = call('HGET', key('attempts'), name_of(data))
    return text and cmsgpack.unpack(text) or NO_COUNTS
  end,

  drop = function(data) call('HDEL', key('attempts'), name_of(data)) end,
}

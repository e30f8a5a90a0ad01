-- lib marks: since when an id was seen in `processing` without a lease (`unleased`), or an item in no list (`stray`). Seen
-- twice like this it is requeued; a mark that is too old is of another time, and proves nothing.
local function forget_marks(config, time)
  local old = time - config.stray - @MARK_MS@
  call('ZREMRANGEBYSCORE', key('unleased'), '-inf', old)
  call('ZREMRANGEBYSCORE', key('stray'), '-inf', old)
end

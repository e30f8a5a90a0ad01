-- arrive: forget items that have departed and are in another queue by now.
-- KEYS[1] prefix
-- ARGV id...
-- Returns: 1
-- Invariant: nothing is left of them here. Sending it again is harmless by nature.
--@include begin types leases claims ends
allow_when_full()
check_types()
call('ZCARD', key('moving'))
local ids = {}
for i = 1, #ARGV do
  if call('ZSCORE', key('moving'), ARGV[i]) then
    ids[#ids + 1] = ARGV[i]
  end
end
forget_end('moving', ids)
return 1

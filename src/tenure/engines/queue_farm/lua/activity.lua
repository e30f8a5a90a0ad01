-- activity: how many lanes have jobs, for all clients, and how many of them could run now.
-- KEYS[1] prefix
-- ARGV
-- Returns: {lanes, lanes that are ready, lanes that Tenure workers hold, lanes that others hold}
-- Invariant: changes nothing.
--@include begin farm
return { call('SCARD', wire('active')), call('ZCARD', key('ready')), call('HLEN', key('claims')),
  call('HLEN', key('foreign')) }

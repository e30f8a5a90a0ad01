-- lib claimdue: the work that is due, which a claim does before it takes jobs. A part of `claim`.
-- Needs: ARGV, limit, number, remember, session, time. Sets: next_ms, uses_features.
--@include config types back duework
local config = config_of(ARGV[3])
check_types()
local promoted, reclaimed, due_ms, rest = run_due(config, time, math.max(@TEND_LIMIT@, limit))
if newer_layout then return newer_layout_error() end
next_ms, uses_features = due_ms, uses_features or promoted + reclaimed > 0
if rest then
  -- The next call brings back earlier jobs of dead workers; no later job may start before them.
  remember(session, number, '')
  return { 0, {}, {}, 0 }
end

-- enqueue_shaped: add jobs of which some have a lane, a priority or a unique key, or are persistent. As `enqueue` else.
-- KEYS[1] prefix
-- ARGV session number room (id record due rule)...
-- room: as with `enqueue`; with `?` behind it, only jobs with a lane, key or id that is here are added: see lib asked.
-- rule: see lib addjobs.
-- Returns: a string of one character a job: 1 added, 0 existed, or the letter of what was done because another job has
-- its unique key (see `resolve`), ? it belongs to another partition; then `<length>:<id>` of the other job for every
-- letter, and `!` as with `enqueue`.
-- Invariant: a job that was added is in `jobs` and in exactly one of its lane, the list of its priority, `ready`,
-- `scheduled` and `again`. Without room for all nothing is added.
--@include begin types answers addjobs
local session, number, room, map, asks = ARGV[1], ARGV[2], tonumber(ARGV[3]), '0', ''
local again = recall(session, number)
if again then return again end
if not room then
  room, map, asks = string.match(ARGV[3], '^(%d+) (%d+)(%??)$')
  room = tonumber(room)
end
local outdated_map = outdated(tonumber(map))
if outdated_map then return outdated_map end
check_types()
local given = {}
for i = 4, #ARGV, 4 do given[#given + 1] = { ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3] } end
local jobs = jobs_to_add(given)
if asks ~= '' then
--@part asked
  local moving = mark_elsewhere(jobs)
  if moving then return moving end
end
local answer, full = add_jobs(jobs, room)
return full or remember(session, number, answer)

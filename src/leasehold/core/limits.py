"""Every limit and default number of Leasehold, named, in one place. Times are milliseconds, sizes are bytes."""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Names and payloads, refused by the client before anything is sent.
MAX_NAME = 200
MAX_ID = 255
MAX_PAYLOAD = 1024 * 1024
MAX_PAYLOAD_CEILING = 64 * 1024 * 1024
MAX_RESULT = 1024 * 1024
MAX_JSON_DEPTH = 64

# One call to Redis.
MAX_BATCH, JOB_BYTES = 500, 1536
"""Jobs in one script call that are plain and small; one of a lane counts as several, and so many bytes as one more.
Redis serves nobody else meanwhile. Lua's unpack fails near 8,000 values; the widest script uses four a job."""
ROUND_MOST = 200
"""Jobs that a worker claims or settles in one call: Redis serves nobody else meanwhile. A batch of one lane is claimed
whole."""
MAX_CALL_BYTES = 4 * 1024 * 1024
HEADS_KEPT = 256
"""First lines of records, without their times, that need not be read again: those of a task are mostly alike."""
ANSWER_TTL_MS = 10 * MINUTE
"""How long Redis remembers the answer of a call, so that sending it again is harmless."""

# Leases. A worker beats every BEAT_MS while it holds jobs. When LEASE_MS has passed without a beat it is suspected, and
# GRACE_MS later, still silent, its jobs are given back: 2.6 s after its last beat, inside the promised 3 s.
BEAT_MS = 500
LEASE_MS = 1_800
GRACE_MS = 800
OUTAGE_MS = 5_000
"""Nobody reached the queue for this long: Redis was away, so silence proves nothing about the workers."""
AMNESTY_MS = 2_500
"""After an outage, how long the workers have to come back before any of them can be suspected."""
MIN_LEASE_MS = 100
MAX_LEASE_MS = 7 * DAY
OVERDUE_GRACE_MS = 30 * SECOND
"""A job held this much longer than its timeout belongs to a process that is wedged: it is taken back."""
MAX_HELD = 1_000
"""Jobs that one worker may hold on one queue."""
MAX_HOLDERS = 1_000
"""Workers that may hold jobs of one queue at one time."""

# Waiting for work.
IDLE_WAIT_MS = 2_000
"""An idle worker looks at its queues at least this often, whatever wake-ups were lost."""
MIN_WAIT_MS = 20
RESULT_WAIT_MS = 2_000
"""Who waits for a result asks again at least this often, whatever messages were lost."""

# Housekeeping.
MAINTAIN_MS = 5_000
UNPARKED_MS = 250
"""Parked jobs came back: workers that do not know their task may take and park them again, so look again this soon."""
PRESENCE_MS = 10_000
SILENT_MS = 15_000
"""A worker that has not said so for this long is shown as silent."""
PRESENCE_TTL_MS = 35_000
TEND_LIMIT = 200
"""Jobs promoted or given back by one call, besides what the call is for."""
BACK_MOST, BACK_HARD = 100, 3
"""Jobs that one call gives back of those that workers held; one that has a shape or ends counts as so many of them.
The next call goes on with the others."""
META_TTL_MS = 30 * DAY
"""An idle queue's counters are forgotten after this long."""
PUT_OFF_MS = MINUTE
"""A job whose list is another program's is tried to be put there again after this long."""

# Jobs.
DEFAULT_TIMEOUT_MS = HOUR
MAX_TIMEOUT_MS = 7 * DAY
MAX_DELAY_MS = 10 * 365 * DAY
DEFAULT_RETRIES = 3
MAX_RETRIES = 10_000
MAX_CRASHES, ALONE_AFTER_CRASHES, SUSPECT_CRASHES = 6, 4, 2
"""Deaths of its workers that end a job in `broken`, after which it runs alone, and waits apart: see decision 0008."""
STEADY_MS = 15 * SECOND
"""A job that has run for longer is not to blame for a death that follows the start of another one."""
RESERVED_MS, RESERVED_LOOK_MS = 5 * SECOND, 500
"""How long a worker that gets ready to run a job alone keeps that job, and how often it says that it still does."""
POISON_MAX, POISON_TTL_MS = 100, DAY
"""How many of the last jobs that ended so are remembered, and for how long, until some worker has told of them."""
TURNS_MOST, CLAIM_BYTES = 100, 512 * 1024
"""Turns of lanes in one claim, and bytes from which on it takes no further job. Who has room for more claims again."""
LARGE_BYTES, READ_BYTES = 2 * 1024, 256 * 1024
"""A record with more bytes is large: a queue that has one is read by sizes. And from so many of them on, a call for
many jobs that is no claim leaves the rest to the next one."""
LEASE_LOOKS = 1_000
"""Claims that one lease by hand makes at once, as long as there may be a job right behind what it has looked at."""
MAX_LOOK = 200
"""Entries of the list of ready jobs, beyond its limit, that one claim looks through for jobs that it can take."""

# The shape of a queue.
MIN_PRIORITY = -100
MAX_PRIORITY = 100
PRIORITY_TURN = 10
"""While jobs of a lower priority wait, one of so many claims of a job is theirs."""
MAX_LANE_LIMIT = 1_000
MAX_UNIQUE_KEY = 200
MAX_WINDOW_MS = 365 * DAY
POSTPONE_MOST = 10
"""A job that is put off again and again (debounce) is due this many times its wait after the first, at the latest."""
MAX_QUEUE_LENGTH = 1_000_000_000
NEVER_MS = 9_999_999_999_999
"""A time that does not come: when a record that blocks a lane expires."""
MAX_BATCH_SIZE = 500
MAX_LINGER_MS = MINUTE
PROGRESS_MS = 100
"""Progress is told at most this often; in between only the newest is kept."""
MAX_PROGRESS_TEXT = 500
MAX_WEIGHT = 100
QUIET_TTL_MS = 30 * DAY
"""How long a worker that is not there is remembered to be quiet."""

# Records of what has ended: the newest are kept, up to a count and an age.
COMPLETED_TTL_MS = HOUR
COMPLETED_MAX = 100_000
MAX_RESULT_TTL_MS = 365 * DAY
FAILED_TTL_MS = 7 * DAY
FAILED_MAX = 10_000
MAX_ERROR_TEXT = 8 * 1024
MAX_TRACEBACK = 16 * 1024

PAGE_MAX = 100
PAGE_OFFSET_MAX = 1_000_000_000
MAX_GHOST_LOOK = 5_000
"""Entries of the list of ready jobs that a page looks through for those that were cancelled or discarded."""
FOLLOW_LOOK = 2_000  # of the jobs that wait for another with their key, only so many can be listed
PURGE_MOST, PURGE_ROUNDS = 100, 1_000_000
"""Jobs that one call purges or cancels, and calls that one purge makes at the most."""
HOLD_MS = 10 * SECOND  # how long a queue is held when the caller of such calls has died
WATCH_TTL_MS = 10 * SECOND
"""How long Redis keeps in mind that somebody waits for a job's end; the waiting side asks again in between."""
REGISTER_EVERY = 10_000
"""An engine lists a queue again after this many enqueues."""
REGISTERED_MAX = 10_000

# Reaching Redis.
CONNECT_TIMEOUT_MS = 5_000
REPLY_TIMEOUT_MS = 2_000
"""How long one attempt waits for its reply, besides the time that a blocking command asks for. The other end may be
gone without a word; a call that was only slow is sent again, which is harmless."""
BLOCK_LATE_MS = 1_500
"""How much later than asked for the reply to a blocking command may come: then the connection is taken for lost."""
SLOW_BYTES_PER_S = 1024 * 1024
"""A large call may take longer: by the time that it needs on a network as slow as this."""
PATIENCE_MS = 10 * SECOND
"""For this long after its first failure a call is sent again before it ends in `Unreachable`."""
START_PATIENCE_MS = 3 * SECOND
"""The same for a command that has just been started: somebody may be waiting to be told of a wrong URL."""
MAX_IDLE_CONNECTIONS = 64
RESEND_FIRST_MS, RESEND_CAP_MS = 30, 300
RESEND_SLOW_AFTER_MS = 10 * SECOND
RESEND_SLOW_CAP_MS = 2 * SECOND
MIN_ATTEMPT_MS = 100
"""The last attempts within the patience get at least this long."""
MAX_SENTINELS = 32
SENTINEL_MS = 1 * SECOND
"""How long each step of asking one sentinel may take, before the next one is asked."""
WAIT_MS = 1 * SECOND
"""How long a durable call waits for the replicas to have what it wrote."""
MAX_DURABLE = 16
"""Replicas that a call may wait for."""
PING_MS = 5 * SECOND
"""A quiet subscription is asked this often whether it is still connected."""
MAX_MESSAGES = 100
"""Messages that wait in one subscription; above it the oldest are dropped."""

# The worker.
CONCURRENCY = 16
MAX_CONCURRENCY = 500
AHEAD_MS = 15
"""How much work a worker claims ahead of its free slots, by measured job time."""
MAX_AHEAD = 500
STUCK_MS = 25
"""A claimed job that has waited this long while every slot was busy is handed back, for another worker to run."""
WATCH_MS = 20
"""How often running jobs are looked at for timeouts: the precision of a job's timeout."""
STOP_GRACE_MS = 20 * SECOND
"""After a first signal: how long running jobs have to finish."""
CANCEL_MS = 1 * SECOND
"""How long an async handler has to end after it was cancelled. Then it is given up; its slot stays busy."""
SETTLE_CROWD, SETTLE_FULL, GATHER_MS = 8, 100, 2
"""From so many ended jobs at once a worker waits so long for more, up to so many, and settles all in one call."""
SLOTS_LOST_MS = 5 * SECOND
"""When handlers that would not end have occupied every slot for so long, the worker retires."""
FLUSH_MS = 5 * SECOND
"""At a stop: how long outcomes may take to reach Redis."""
LEAVE_MS = 2 * SECOND
BEQUEST_MS = 30 * SECOND
"""For how long a keeper waits for the end of a process whose worker has ended before its handlers."""
LINGER_MS = 2 * SECOND
"""After a worker has ended: how long the process waits for what handlers left behind, as threads and exit hooks."""
HARD_STOP_MS = 1 * SECOND
LOOP_FAILURES = 10
"""A background loop that raised this often within a minute stops the worker with an error."""
KEEPER_RESTARTS = 5
"""A keeper that died more often than this within a minute stops the worker with an error."""
KEEPER_REST_MS = 2 * SECOND
"""A keeper of a worker that holds nothing does not beat; it only says this often that it is there."""
KEEPER_SILENCE_MS = 3 * SECOND
"""A keeper that said nothing for twice this long is replaced, also while nothing is held or it is starting."""
KEEPER_TEND_MS = 1 * SECOND
"""While a worker holds jobs of some queues, its keeper comes by its other queues this often."""
KEEPER_LATE_MS = 1 * SECOND
"""While jobs are held: no claims after such a silence of the keeper's, in which two beats should have come."""
KEEPER_GONE_MS = 1_300
"""While jobs are held: after such a silence the keeper is replaced, in time for the next one to keep the leases."""
REDIS_BACKOFF_MS, REDIS_BACKOFF_CAP_MS = 50, 1 * SECOND
SPURIOUS_MS = 100
"""The longest pause after wake-ups that led to nothing."""
MAX_LOG_TEXT = 300

# Events, hooks, middleware.
MAX_LISTENERS = 100
MAX_MIDDLEWARE = 50
EVENTS_WAITING = 10_000
"""Events that wait for listeners. Further ones are dropped, and counted."""
EVENTS_ROUND = 100
"""Listeners hear of so many events before the event loop does other things."""
LISTENER_MS = 10 * SECOND
"""How long an async listener may take for one event."""
LISTENER_SLOW_MS = 100
"""A listener that keeps the event loop for longer than this is told about."""
HOOKS_RUNNING = 16
"""`on_failure` hooks that run at one time."""
HOOKS_WAITING = 1_000
"""Those that wait for that. Further ones are not called, which is logged."""
HOOK_MS = MINUTE
"""How long an async hook may take, and for how long the place of a sync one is kept."""
TELL_MS = 2 * SECOND
"""At the end of a worker: how long listeners and hooks have for what they have not heard yet."""
TOLD_MAX = 100
"""Kinds of trouble that are logged once each. Beyond that they are told at debug only."""

# When a worker's process has died, its keeper gives back what it held.
HAND_BACK_MS = 10 * SECOND
"""For this long it tries, when Redis does not answer or refuses. After that the lease decides."""
WAITER_MS = HAND_BACK_MS + 4 * SECOND
"""For this long it is waited for, by those whose end would be its own: it may have been doing something else before."""
GROUPS_MS = 1 * SECOND
"""Before that it kills the job processes, and waits until they are dead, but not for longer than this."""
GUARDED_MOST = 2 * MAX_CONCURRENCY
"""So many of them it knows: one for each slot, and those that are about to end."""
PARENT_LOOK_MS = 50
"""How often a keeper looks whether its worker's process has become another program."""

# Keepers that do not speak. A machine that is short of processor time must not end a worker.
KEEPER_START_MS = 20 * SECOND
"""A keeper that has been started has this long for its first word. Then it is replaced."""
KEEPER_STARTS = 5
"""So many keepers in a row that never said a word stop the worker with an error."""
KEEPER_UNSTARTED_MS = 30 * SECOND
"""When the system could not start one for so long, time after time, the worker stops with an error."""
KEEPER_BACKOFF_MS, KEEPER_BACKOFF_CAP_MS = 50, 500
"""Between two tries. It doubles up to this."""
KEEPER_PATIENCE_MOST = 16
"""Each keeper that was replaced for its silence doubles how long the next may be silent, up to so many times."""
KEEPER_PATIENCE_MS = MINUTE
"""A keeper that has not been silent for this long has earned the usual limits again."""

# A supervisor and its worker processes.
MAX_PROCESSES = 256
CHILD_START_MS = MINUTE
"""A worker process that is not ready by then is told about; a rolling restart does not wait for it any longer."""
CHILD_YOUNG_MS = 10 * SECOND
"""One that dies sooner than this after its start died young: its place is filled after a pause that grows."""
CHILD_BACKOFF_MS = 250
CHILD_BACKOFF_CAP_MS = 10 * SECOND
CHILD_FAILURES = 10
"""So many in a row that died before they were ready, while no other is ready, end the supervisor."""
CHILD_HARD_MS = 5 * SECOND
"""After the time of grace: how long a worker process has for its own end before it is told to stop hard."""
CHILD_KILL_MS = 3 * SECOND
"""A worker process that was told to stop hard and goes on for this long is killed."""
CHILD_RETIRING_MOST = 2
"""Worker processes in the place of one, besides the newest, that may be finishing their last jobs."""
CHILD_LINE_MAX = 4 * 1024
"""Bytes of one line between a supervisor and a worker process."""
RELOAD_GRACE_MS = 3 * SECOND
"""When files have changed: how long running jobs may go on. Then they run again, with the new code."""
RECYCLE_CHECK_MS = 1 * SECOND
"""How often a worker looks whether it has run enough jobs, or has grown too large."""
RECYCLE_DRAIN_MS = HOUR
"""How long a worker that is to be recycled waits for what it runs. What goes on then has the time of grace."""
MAX_RECYCLE_JOBS = 1_000_000_000
MAX_RECYCLE_MB = 1_048_576

THREAD_RETRY_MS = 1 * SECOND
"""When the system allows no more threads: how long until another is tried."""

# Job processes, for tasks that say run_in="process". A worker has one for each of its slots at the most.
PROCESS_JOBS = 1_000
"""Jobs that one of them runs, one after the other. Then another takes its place."""
PROCESS_IDLE_MS = 5 * MINUTE
"""One that had nothing to run for so long ends."""
PROCESS_START_MS = MINUTE
"""How long one has to load the app."""
PROCESS_STARTING_MOST = 4
"""So many are started at one moment: each takes up a core until it has loaded the app."""
PROCESS_STARTS = 7
"""After so many in a row that could not be started, jobs that need one are parked until one can be."""
PROCESS_PROBE_MS = 30 * SECOND
"""How often one is tried then."""
PROCESS_BACKOFF_MS = 250
PROCESS_BACKOFF_CAP_MS = 5 * SECOND
PROCESS_CANCEL_MS = 5 * SECOND
"""How long a handler has to end after it was told that its job is to be cancelled. Then its process is killed."""
PROCESS_BYE_MS = 2 * SECOND
"""How long one that is done has for its exit handlers."""
PROCESS_KILL_MS = 5 * SECOND
"""One that was killed and does not end in this time is given up: the system cannot end it."""
PROCESS_ANSWER_MAX = 2 * MAX_RESULT
"""Bytes of what it says at once."""
PROCESS_ORDER_MAX = 2 * MAX_PAYLOAD_CEILING
"""Bytes of what it is told at once."""
PROCESS_ASKS = 1_000
"""Times that it may be asking for more time at one moment."""
MIN_JOB_MB = 16
MAX_JOB_MB = 1_048_576
"""Of the memory that a job in a process of its own may take."""

# Health, for orchestrators.
HEALTH_MS = 1 * SECOND
"""How often a worker tells how it is: in its file, and to its supervisor."""
HEALTH_READY_MS = 15 * SECOND
"""Without a good reply of Redis for this long a worker is not ready. An idle one asks every few seconds."""
HEALTH_LIVE_MS = MINUTE
"""Without a good reply for this long it is not live. It goes on trying all the same."""
HEALTH_CONNECTIONS = 32
"""Questions about health that are answered at one time. Further ones are closed."""
HEALTH_REQUEST_MS = 2 * SECOND
"""How long one of them may take."""
HEALTH_REQUEST_MAX = 8 * 1024
"""Bytes of one of them."""

# The command line.
JOBS_SHOWN = 20
"""Jobs of each state that `leasehold jobs` shows when nothing else is asked for."""
JOBS_SHOWN_MAX = 1_000
LANE_LOOK = 10_000
"""Jobs of one state that are looked through for those of one lane, where nothing lists them by their lane."""
MANY_MAX = 10_000
"""Jobs that one `leasehold retry --all` retries."""
CONTENT_SHOWN = 8 * 1024
"""Bytes of a payload or a result that are shown as text. JSON has all of them."""
QUEUES_SHOWN = 1_000
REFRESH_MS = 1 * SECOND
"""How often `leasehold info --watch` looks again."""
EDIT_ROUNDS = 10
"""How often an edited payload that is not right may be edited again."""
COMPLETE_MS = 300
"""How long a shell that completes a word waits for Redis."""
COMPLETE_MOST = 200
"""Names that it is given."""

# Looking whether a Redis is fit to keep jobs.
PINGS = 10
SLOW_PING_MS = 20
"""Half of the pings took longer: each job needs some round trips, so it is worth a warning."""
CLOCKS_APART_MS = 2 * SECOND
"""How far the clocks of Redis and of this machine may differ before it is worth a warning."""
ALMOST_FULL = 0.9
"""The share of the memory, or of the connections, from which on it is worth a warning."""

# The wire format of redis-work-queue.
RWQ_LEASE_MS = 10 * SECOND
"""The time to live of a kept lease as other clients see it. Beats renew it; our own workers take over sooner."""
RWQ_STRAY_MS = MINUTE
"""For so long an id must have been seen without a lease, which was not ours, before it is put back into its queue."""
RWQ_MARK_MS = 2 * DAY
"""What was seen longer ago than this, on top of that, proves nothing any more, and is forgotten. Those who clean by a
timetable do it once a day at least."""
RWQ_MARKS_MAX = 10_000
"""Items that were added again, of which it is noted that they may be in no list. A deep clean looks at the others."""
RWQ_COPIES_MAX = 50_000
"""Ids in `processing` that one call looks at for second copies of what it ends: about two milliseconds."""
RWQ_COPIES_FEW = 2_000
"""Where others are not known to be about."""
RWQ_DEEP_MS = 10 * MINUTE
"""How often items that are in no list are looked for."""
RWQ_PAGE = 1_000
"""Ids or items that one step of a deep clean looks at."""
RWQ_LIGHT_PAGE = 250
"""Ids that one step of a light clean looks at, and may put back: some milliseconds."""
RWQ_SEARCHED = 5
"""Of these, how many are searched for in the lists by one call: each takes as long as the lists are."""
RWQ_LEFT = 20
"""Ids in another cleaner's own list that one round looks at."""
RWQ_STEPS = 40
"""Steps of a light clean, and of a deep one, that one round of maintenance makes."""
RWQ_KNOWN_MAX = 500_000
"""Ids that a deep clean keeps in mind at one time. Where the lists are longer, it takes turns."""
RWQ_MIN_LEASE_MS = SECOND
"""Other clients count leases in seconds."""
RWQ_SLICE_MS = 500
"""Of several queues, one is waited for at a time, for so long."""

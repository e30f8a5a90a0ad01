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
MAX_BATCH = 500
"""Jobs in one script call. Lua's unpack fails near 8,000 values; the widest script uses four values a job."""
MAX_CALL_BYTES = 4 * 1024 * 1024
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
PRESENCE_TTL_MS = 35_000
TEND_LIMIT = 200
"""Jobs promoted or given back by one call, besides what the call is for."""
META_TTL_MS = 30 * DAY
"""An idle queue's counters are forgotten after this long."""

# Jobs.
DEFAULT_TIMEOUT_MS = HOUR
MAX_TIMEOUT_MS = 7 * DAY
MAX_DELAY_MS = 10 * 365 * DAY
DEFAULT_RETRIES = 3
MAX_RETRIES = 10_000
MAX_CRASHES = 5
"""A job whose worker died this often while holding it ends in `broken`."""
ISOLATE_AFTER_CRASHES = 2
"""From this many crashes on, a worker holds only one such job at a time, so that poison cannot drag others along."""
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
PERSISTENT_STEADY_MS = MINUTE
"""A persistent job that was held for longer than this when its worker died starts with a clean count of crashes."""
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
PURGE_ROUNDS = 100_000
"""Calls that one purge makes at the most, each of MAX_BATCH jobs."""
WATCH_TTL_MS = 10 * SECOND
"""How long Redis keeps in mind that somebody waits for a job's end; the waiting side asks again in between."""
REGISTER_EVERY = 10_000
"""An engine lists a queue again after this many enqueues."""
REGISTERED_MAX = 10_000

# Reaching Redis.
CONNECT_TIMEOUT_MS = 5_000
REPLY_TIMEOUT_MS = 5_000
"""How long one attempt waits for its reply, besides the time that a blocking command asks for."""
PATIENCE_MS = 10 * SECOND
"""For this long after its first failure a call is sent again before it ends in `Unreachable`."""
START_PATIENCE_MS = 3 * SECOND
"""The same for a command that has just been started: somebody may be waiting to be told of a wrong URL."""
MAX_IDLE_CONNECTIONS = 64
RESEND_FIRST_MS = 30
RESEND_CAP_MS = 300
RESEND_SLOW_AFTER_MS = 10 * SECOND
RESEND_SLOW_CAP_MS = 2 * SECOND
MIN_ATTEMPT_MS = 100
"""The last attempts within the patience get at least this long."""
PING_MS = 10 * SECOND
"""A quiet subscription is asked this often whether it is still connected."""
MAX_MESSAGES = 100
"""Messages that wait in one subscription; above it the oldest are dropped."""

# The worker.
CONCURRENCY = 16
MAX_CONCURRENCY = 500
AHEAD_MS = 30
"""How much work a worker claims ahead of its free slots, by measured job time."""
MAX_AHEAD = 500
STUCK_MS = 50
"""A claimed job that has waited this long while every slot was busy is handed back, for another worker to run."""
WATCH_MS = 50
"""How often running jobs are looked at for timeouts: the precision of a job's timeout."""
STOP_GRACE_MS = 20 * SECOND
"""After a first signal: how long running jobs have to finish."""
CANCEL_MS = 1 * SECOND
"""How long an async handler has to end after it was cancelled. Then it is given up; its slot stays busy."""
FLUSH_MS = 5 * SECOND
"""At a stop: how long outcomes may take to reach Redis."""
LEAVE_MS = 2 * SECOND
LINGER_MS = 2 * SECOND
"""After a worker has ended: how long the process waits for tasks and threads that handlers left behind."""
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
REDIS_BACKOFF_MS = 50
REDIS_BACKOFF_CAP_MS = 1 * SECOND
SPURIOUS_MS = 100
"""The longest pause after wake-ups that led to nothing."""
MAX_LOG_TEXT = 300

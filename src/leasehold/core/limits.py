"""Units of time, and the numbers that two packages or more share. Times are milliseconds, sizes are bytes."""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Names and payloads, refused by the client before anything is sent.
MAX_NAME = 200
"""Characters of the name of a queue, task or namespace."""
MAX_ID = 255
"""Bytes of the id of a job."""
MAX_PAYLOAD_CEILING = 64 * 1024 * 1024
"""Bytes to which the setting can raise the limit of a payload."""
MAX_RESULT = 1024 * 1024
"""Bytes of a result."""

# One call to Redis.
MAX_BATCH = 500
"""Jobs in one script call. Redis serves no other client meanwhile. Lua's unpack fails near 8,000 values; the widest
script uses four a job."""
MAX_CALL_BYTES = 4 * 1024 * 1024
"""Bytes of records that one call sends or reads."""

# Leases.
MIN_LEASE_MS = 100
"""The shortest lease that can be asked for."""
MAX_LEASE_MS = 7 * DAY
"""The longest lease that can be asked for."""
OVERDUE_GRACE_MS = 30 * SECOND
"""A job held this much longer than its timeout belongs to a stuck process: its lease is taken back."""
MAX_HELD = 1_000
"""Jobs that one worker may hold on one queue."""

# Waiting for work.
IDLE_WAIT_MS = 2_000
"""An idle worker looks at its queues at least this often, even if wake-ups are lost."""
MIN_WAIT_MS = 20
"""The shortest wait for work."""

# Housekeeping.
TEND_LIMIT = 200
"""Jobs promoted or released by one call, besides the call's own purpose."""

# Jobs.
DEFAULT_TIMEOUT_MS = HOUR
"""How long a job may run, unless its task says otherwise."""
MAX_TIMEOUT_MS = 7 * DAY
"""The longest timeout of a job."""
MAX_DELAY_MS = 10 * 365 * DAY
"""The longest delay of a job."""
DEFAULT_RETRIES = 3
"""How often a failed job is retried, unless its task says otherwise."""
MAX_RETRIES = 10_000
"""The most retries that a task can ask for."""
SUSPECT_CRASHES = 2
"""Deaths of its workers after which a job waits apart from the others: see decision 0008."""
LEASE_LOOKS = 1_000
"""Claims that one lease by hand makes at once while there may be a job behind those that it has looked at."""

# The shape of a queue.
MIN_PRIORITY = -100
"""The lowest priority."""
MAX_PRIORITY = 100
"""The highest priority."""
MAX_LANE_LIMIT = 1_000
"""Jobs of one lane that may run at one time, at most."""
MAX_QUEUE_LENGTH = 1_000_000_000
"""The largest limit for the length of a queue."""
MAX_WEIGHT = 100
"""The largest weight of a queue."""

# Records and pages.
COMPLETED_TTL_MS = HOUR
"""How long a result is kept, unless its task says otherwise."""
MAX_ERROR_TEXT = 8 * 1024
"""Bytes of the text of an error that are kept."""

PAGE_MAX = 100
"""Jobs of one page."""
PAGE_OFFSET_MAX = 1_000_000_000
"""The largest offset of a page."""
PURGE_ROUNDS = 1_000_000
"""Calls that one purge makes, at most."""

# Reaching Redis.
CONNECT_TIMEOUT_MS = 5_000
"""How long a connection attempt may take."""
REPLY_TIMEOUT_MS = 2_000
"""How long one attempt waits for its reply, besides the time that a blocking command asks for. The other end may be
gone without a word; a call that was only slow is sent again, which is harmless."""
PATIENCE_MS = 10 * SECOND
"""For this long after its first failure a call is sent again before it ends in `Unreachable`."""
START_PATIENCE_MS = 3 * SECOND
"""The same for a command that has just been started: its user may be waiting to learn of a wrong URL."""
WAIT_MS = 1 * SECOND
"""How long a durable call waits for its replicas."""
MAX_DURABLE = 16
"""Replicas that a call may wait for."""
MAX_MESSAGES = 100
"""Messages that wait in one subscription; above it the oldest are dropped."""

# The worker.
CONCURRENCY = 16
"""Slots of a worker, by default."""
MAX_CONCURRENCY = 500
"""Slots that a worker can have."""
STOP_GRACE_MS = 20 * SECOND
"""How long running jobs have to finish after a first signal."""
HARD_STOP_MS = 1 * SECOND
"""How long each step of a hard stop may take."""
KEEPER_TEND_MS = 1 * SECOND
"""While a worker holds jobs of some queues, its keeper maintains its other queues this often."""

# A supervisor and its worker processes.
MAX_RECYCLE_JOBS = 1_000_000_000
"""The largest number of jobs after which a worker can be recycled."""
MAX_RECYCLE_MB = 1_048_576
"""The largest size at which a worker can be recycled."""

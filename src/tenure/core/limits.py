"""Units of time, and the limits that several packages share. Times are milliseconds, sizes are bytes."""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

# Names and payloads. The client refuses them before it sends anything.
MAX_NAME = 200
"""The most characters of the name of a queue, task or namespace."""
MAX_ID = 255
"""The most bytes of a job's id."""
MAX_PAYLOAD_CEILING = 64 * 1024 * 1024
"""The largest payload limit that can be set."""
MAX_RESULT = 1024 * 1024
"""The most bytes of a result."""

# One call to Redis.
MAX_BATCH = 500
"""The most jobs in one script call. Redis serves no other client during it, and Lua's unpack fails near 8,000 values;
the widest script uses four values per job."""
MAX_CALL_BYTES = 4 * 1024 * 1024
"""The most bytes of records that one call sends or reads."""

# Leases.
MIN_LEASE_MS = 100
"""The shortest lease."""
MAX_LEASE_MS = 7 * DAY
"""The longest lease."""
OVERDUE_GRACE_MS = 30 * SECOND
"""A job held this much longer than its timeout belongs to a stuck process: its lease is revoked."""
MAX_HELD = 1_000
"""The most jobs that one worker may hold on one queue."""

# Waiting for work.
IDLE_WAIT_MS = 2_000
"""An idle worker checks its queues at least this often, even if wake-ups are lost."""
MIN_WAIT_MS = 20
"""The shortest wait for work."""

# Housekeeping.
TEND_LIMIT = 200
"""The most jobs that one call promotes or releases, besides its own purpose."""

# Jobs.
DEFAULT_TIMEOUT_MS = HOUR
"""How long a job may run, unless its task sets a timeout."""
MAX_TIMEOUT_MS = 7 * DAY
"""The longest timeout of a job."""
MAX_DELAY_MS = 10 * 365 * DAY
"""The longest delay of a job."""
DEFAULT_RETRIES = 3
"""How often a failed job is retried, unless its task sets `retries`."""
MAX_RETRIES = 10_000
"""The most retries that a task can set."""
SUSPECT_CRASHES = 2
"""After this many deaths of its workers a job is a suspect and waits in a list of its own: see decision 0008."""
MAX_FLOW_RESULTS = 1_000
"""The most results of a flow that one job takes, or one call reads."""
MAX_FOLLOW = 1_000
"""The most follow-up jobs of one job."""
LEASE_LOOKS = 1_000
"""The most claims that one manual lease makes in a row to get past jobs that it cannot take."""

# The shape of a queue.
MIN_PRIORITY = -100
"""The lowest priority."""
MAX_PRIORITY = 100
"""The highest priority."""
MAX_LANE_LIMIT = 1_000
"""The largest limit of jobs of one lane that run at a time."""
MAX_QUEUE_LENGTH = 1_000_000_000
"""The largest limit for the length of a queue."""
MAX_WEIGHT = 100
"""The largest weight of a queue."""

# Records and pages.
COMPLETED_TTL_MS = HOUR
"""How long a result is kept, unless its task sets `result_ttl`."""
MAX_ERROR_TEXT = 8 * 1024
"""The most bytes of an error's text that are kept."""

PAGE_MAX = 100
"""The most jobs of one page."""
PAGE_OFFSET_MAX = 1_000_000_000
"""The largest offset of a page."""
PURGE_ROUNDS = 1_000_000
"""The most calls that one purge makes."""

# Reaching Redis.
CONNECT_TIMEOUT_MS = 5_000
"""How long a connection attempt may take."""
MIN_CONNECTIONS = 3
"""The least maximum of connections. The driver of asyncio needs one for calls, one for messages, and one for waits."""
MAX_CONNECTIONS = 10_000
"""The largest maximum of connections."""
REPLY_TIMEOUT_MS = 2_000
"""How long one attempt waits for its reply, besides the time that a blocking command asks for. The server may be
gone without a word; repeating a call that was only slow is harmless."""
PATIENCE_MS = 10 * SECOND
"""How long after its first failure a call is retried before it ends in `Unreachable`."""
START_PATIENCE_MS = 3 * SECOND
"""The same for a command that has just started: its user may be waiting to learn of a wrong URL."""
WAIT_MS = 1 * SECOND
"""How long a durable call waits for its replicas."""
MAX_DURABLE = 16
"""The most replicas that a call can wait for."""
MAX_MESSAGES = 100
"""The most messages that wait in one subscription; beyond it the oldest are dropped."""

# The worker.
CONCURRENCY = 16
"""The default number of a worker's slots."""
MAX_CONCURRENCY = 500
"""The most slots of a worker."""
STOP_GRACE_MS = 20 * SECOND
"""How long running jobs have to finish after the first signal."""
HARD_STOP_MS = 1 * SECOND
"""How long each step of a hard stop may take."""
KEEPER_TEND_MS = 1 * SECOND
"""While a worker holds jobs of some queues, its keeper maintains its other queues this often."""

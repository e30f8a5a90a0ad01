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

# Housekeeping.
MAINTAIN_MS = 5_000
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

# Records of what has ended: the newest are kept, up to a count and an age.
COMPLETED_TTL_MS = HOUR
COMPLETED_MAX = 100_000
FAILED_TTL_MS = 7 * DAY
FAILED_MAX = 10_000
MAX_ERROR_TEXT = 8 * 1024
MAX_TRACEBACK = 16 * 1024

PAGE_MAX = 100

"""Every error reply that Redis may give, by its prefix, as Redis puts it."""

from __future__ import annotations

from typing import Final

ERROR_REPLIES: Final = {
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "BUSY": "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "TRYAGAIN": "TRYAGAIN Multiple keys request during rehashing of slot",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "MASTERDOWN": "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "READONLY": "READONLY You can't write against a read only replica.",
    "UNBLOCKED": "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF": "MISCONF Errors writing to the AOF file: No space left on device",
    "NOAUTH": "NOAUTH Authentication required.",
    "WRONGPASS": "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM": "NOPERM this user has no permissions to run the 'evalsha' command",
    "WRONGTYPE": "WRONGTYPE Operation against a key holding the wrong kind of value",
    "NOSCRIPT": "NOSCRIPT No matching script. Please use EVAL.",
    "MOVED": "MOVED 3999 127.0.0.1:6381",
    "ASK": "ASK 3999 127.0.0.1:6381",
    "CROSSSLOT": "CROSSSLOT Keys in request don't hash to the same slot",
    "EXECABORT": "EXECABORT Transaction discarded because of previous errors.",
    "max clients": "ERR max number of clients reached",
    "unknown": "TNNEVERHEARD of it",
}

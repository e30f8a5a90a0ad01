"""The Lua operations of the native engine, assembled from their files, with the names of their arguments.

An operation is one file in lua/; a line `--@include a b` is replaced by lua/lib/a.lua and b.lua, and `@NAME@` by the
number of that name in core/limits.py. Data reaches a script through KEYS and ARGV only, never through its text.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from leasehold.core import limits
from leasehold.core.steps import Script

ARGUMENTS: Final[dict[str, str]] = {
    "enqueue": "session number room (id record due own)...",
    "enqueue_shaped": "session number room (id record due rule)...",
    "claim": "session number config worker limit lease_ms by_hand slots of_lane",
    "settle": "session number config worker (id token kind ms head body)...",
    "extend": "session number config worker id token ms",
    "heartbeat": "config worker (id token)...",
    "leave": "session number config worker crashed",
    "maintain": "config limit meta_ttl_ms task...",
    "show": "id watch_ms",
    "page": "state offset limit lane",
    "counts": "",
    "holders": "",
    "retry": "session number id edited payload",
    "discard": "session number id",
    "cancel": "session number config id body signal queue",
    "sweep": "session number config state lane after limit body signal queue",
    "purge": "session number state limit",
    "progress": "worker id token text",
    "lane": "lane",
    "lanes": "state cursor limit",
    "park": "session number lane parked",
    "configure": "session number (setting value)...",
    "quiet": "session number worker quiet ttl_ms channel",
    "announce": "worker text ttl_ms keep_ms queue...",
    "withdraw": "worker",
    "register": "queue keep_ms",
    "workers": "ttl_ms",
}
"""What each operation takes in ARGV, as its header says. KEYS is always the prefix alone."""


def assemble(name: str) -> str:
    """The full text of an operation: its libraries in place, its numbers filled in."""
    folder = files(__package__) / "lua"
    text = (folder / f"{name}.lua").read_text()

    def include(match: re.Match[str]) -> str:
        return "".join((folder / "lib" / f"{lib}.lua").read_text() for lib in match[1].split())

    text = re.sub(r"^--@include (.*)\n", include, text, flags=re.MULTILINE)
    return re.sub(r"@([A-Z_]+)@", lambda match: str(getattr(limits, match[1])), text)


SCRIPTS: Final[dict[str, Script]] = {name: Script(name, assemble(name)) for name in ARGUMENTS}

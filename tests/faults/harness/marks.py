"""How a proxy knows a request by its bytes."""

from __future__ import annotations

from tenure.engines.native.scripts import SCRIPTS


def of(*names: str) -> list[bytes]:
    """How these scripts are called: by digest or, where Redis does not know them, by the beginning of their text."""
    scripts = [SCRIPTS[name] for name in names]
    return [mark for script in scripts for mark in (script.sha.encode(), script.text[:60].encode())]

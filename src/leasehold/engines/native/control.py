"""The native engine for those who act on jobs from outside: retry, discard, cancel, purge."""

from __future__ import annotations

from leasehold.core import limits
from leasehold.core.errors import InvalidArgument
from leasehold.core.job import ErrorInfo, State
from leasehold.core.steps import Arg, Draw, Invoke, Nonce, Steps
from leasehold.engines.native.keys import queue_prefix
from leasehold.engines.native.records import as_bytes, write_error
from leasehold.engines.native.scripts import SCRIPTS


class NativeController:
    """Acting half of the native engine."""

    namespace: str
    _config: str

    def retry(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("retry", queue, as_bytes(id))) == b"1"

    def discard(self, queue: str, id: str) -> Steps[bool]:
        return (yield from self._act("discard", queue, as_bytes(id))) == b"1"

    def cancel(self, queue: str, id: str, reason: str = "") -> Steps[bool]:
        body = write_error(ErrorInfo("Cancelled", reason))
        return (yield from self._act("cancel", queue, self._config, as_bytes(id), body)) == b"1"

    def purge(self, queue: str, state: State) -> Steps[int]:
        if state is State.ACTIVE:
            raise InvalidArgument("Active jobs belong to their workers: stop the workers, or cancel the jobs.")
        removed = 0
        for _ in range(limits.PURGE_ROUNDS):
            reply = yield from self._act("purge", queue, state.value, limits.MAX_BATCH)
            looked, gone = map(int, reply.split(b" "))
            removed += gone
            if looked == 0:
                break
        return removed

    def _act(self, script: str, queue: str, *args: Arg) -> Steps[bytes]:
        nonce: Nonce = yield Draw()
        invoke = Invoke(SCRIPTS[script], (queue_prefix(self.namespace, queue),), (nonce.session, nonce.number, *args))
        reply: bytes = yield invoke
        return reply

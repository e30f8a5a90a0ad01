"""`app.inspect.stacks` finds a worker that did not hear the first request."""

from __future__ import annotations

from typing import Any

from tenure import Tenure
from tenure.client.connections import Connections
from tenure.core.engine import FullEngine
from tenure.core.steps import Command, Steps
from tenure.core.values import replace
from tenure.core.worker_view import JobStack, WorkerView
from tenure.settings import Settings

WORKER = WorkerView("w", ("q",), "host", 1, 0, 0, 1)
FOUND = (JobStack("q", "id-1", "shop.work", "the stack"),)


class Deaf(Connections):
    """Loses the first message to the worker, which replies to the second."""

    asked = 0
    engine: FullEngine

    def run(self, steps: Steps[Any]) -> Any:
        return super().run(self._heard(steps))

    def _heard(self, steps: Steps[Any]) -> Steps[Any]:
        reply = None
        while True:
            try:
                call = steps.send(reply)
            except StopIteration as stop:
                return stop.value
            if isinstance(call, Command) and call.args[0] == "PUBLISH":
                self.asked += 1
                reply = 0
                if self.asked == 2:
                    yield from self.engine.announce(replace(WORKER, stacks=FOUND, stacks_ms=2))
            else:
                reply = yield call


def test_a_request_that_was_lost_is_made_again(redis_url: str) -> None:
    connections = Deaf(Settings.load(url=redis_url))
    app = Tenure(redis_url, runner=connections)
    connections.engine = app.engine
    connections.run(app.engine.announce(WORKER))
    assert app.inspect.stacks("w") == FOUND
    connections.close()

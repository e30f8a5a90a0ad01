"""The autoscaler in front of its readers: KEDA, Prometheus, and whoever runs it while Redis is away."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tenure.core.errors import NotConfigured, Unreachable
from tenure.manage.autoscaler import Autoscaler
from tenure.processes.http import HttpPort
from tenure.scale import Policy, QueueLoad, Sample, Tier

HOWTO = Path(__file__).parents[2] / "docs/howto/autoscaling.md"


class FakeInspect:
    """Samples that a test gives; an error is raised."""

    def __init__(self) -> None:
        self.next: Sample | Exception = Sample(0.0, ())

    def has(self, **load: Any) -> None:
        self.next = Sample(0.0, (QueueLoad("orders", **load),))

    async def aload(self, queues: list[str], due_within: float) -> Sample:
        if isinstance(self.next, Exception):
            raise self.next
        return self.next


class FakeKeda:
    """What KEDA's metrics-api scaler and its HorizontalPodAutoscaler do with the trigger of the how-to page."""

    def __init__(self, port: int, token: str = "") -> None:
        page = HOWTO.read_text()
        (self._trigger,) = re.findall(r"- type: metrics-api\n((?: {6,}.*\n)+)", page)
        url = re.fullmatch(r"http://[^/]+(/\S+)", self._field("url"))
        assert url is not None
        self._path, self._port, self._token = url[1], port, token
        self.location = self._field("valueLocation")

    def _field(self, name: str) -> str:
        (value,) = re.findall(rf'\b{name}: "?([^"\n]*)"?\n', self._trigger)
        return str(value)

    async def replicas(self) -> int:
        headers = {}
        if self._token:
            assert self._field("authMode") == "bearer"
            headers["Authorization"] = f"Bearer {self._token}"
        status, body = await ask(self._port, self._path, headers)
        assert status == 200
        value: Any = json.loads(body)
        for part in self.location.split("."):
            value = value[part]
        return math.ceil(value / float(self._field("targetValue")))


async def ask(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = [f"GET {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in (headers or {}).items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


@pytest.fixture
def inspect() -> FakeInspect:
    return FakeInspect()


def scaler_of(inspect: FakeInspect, token: str = "", **policy: Any) -> Autoscaler:
    return Autoscaler(inspect, ["orders"], Policy(**policy), token)  # type: ignore[arg-type]


@pytest.fixture
async def serve() -> AsyncIterator[Any]:
    ports: list[HttpPort] = []

    async def serve(scaler: Autoscaler) -> int:
        port = HttpPort("scale port", "--serve 8099", scaler.answer)
        ports.append(port)
        return int((await port.open("127.0.0.1", 0)).rpartition(":")[2])

    yield serve
    for port in ports:
        port.close()


async def test_keda_gets_the_number_of_workers_with_its_token(inspect, serve):
    scaler = scaler_of(inspect, "secret", slots=1, max=50)
    port = await serve(scaler)
    keda = FakeKeda(port, "secret")
    inspect.has(waiting=300, run_s=1.0)
    await scaler.look()
    assert await keda.replicas() == 10
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
        assert await ask(port, "/scale", headers) == (401, "Send the token: Authorization: Bearer TOKEN\n")


async def test_keda_gets_the_number_of_a_tier(inspect, serve):
    scaler = scaler_of(inspect, slots=1, tiers=(Tier("spot", 7), Tier("on-demand", 5)))
    keda = FakeKeda(await serve(scaler))
    inspect.has(waiting=300, run_s=1.0)
    await scaler.look()
    for keda.location, count in (("desired", 10), ("tiers.spot", 7), ("tiers.on-demand", 3)):
        assert await keda.replicas() == count


async def test_a_horizontal_pod_autoscaler_gets_a_gauge(inspect, serve):
    scaler = scaler_of(inspect, slots=1, tiers=(Tier("spot", 7),))
    port = await serve(scaler)
    inspect.has(waiting=60, run_s=1.0)
    await scaler.look()
    status, text = await ask(port, "/metrics")
    assert status == 200
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert samples == ["tenure_workers_desired 2", 'tenure_tier_workers_desired{tier="spot"} 2']


async def test_the_last_decision_stays_while_redis_does_not_answer(inspect, serve, caplog):
    scaler = scaler_of(inspect, slots=1, max=50)
    port = await serve(scaler)
    inspect.next = Unreachable("redis://here refuses connections")
    await scaler.look()
    assert (await ask(port, "/scale"))[0] == 503
    inspect.has(waiting=300, run_s=1.0)
    await scaler.look()
    inspect.next = Unreachable("redis://here refuses connections")
    await scaler.look()
    await scaler.look()
    status, body = await ask(port, "/scale")
    assert (status, json.loads(body)["desired"]) == (200, 10)
    assert json.loads(body)["reason"].startswith(
        "The load cannot be read, so the last decision stays: 300 jobs waiting"
    )
    inspect.has(waiting=600, run_s=1.0)
    await scaler.look()
    assert json.loads((await ask(port, "/scale"))[1])["reason"].startswith("600 jobs waiting")
    assert [caplog.text.count(event) for event in ("redis_lost", "redis_restored")] == [2, 2], "each outage once"


async def test_an_unknown_queue_is_logged_once(inspect, caplog):
    caplog.set_level("INFO")
    scaler = scaler_of(inspect)
    inspect.has(is_known=False)
    await scaler.look()
    await scaler.look()
    assert caplog.text.count("queue_unknown queue=orders") == 1


async def test_only_changes_of_the_number_are_reported(inspect):
    scaler, decided = scaler_of(inspect, slots=1, max=50), []
    looks = iter([30, 30, 30, 300, 300, 600])

    async def aload(queues: list[str], due_within: float) -> Sample:
        if (waiting := next(looks, None)) is None:
            raise asyncio.CancelledError
        return Sample(0.0, (QueueLoad("orders", waiting, run_s=1.0),))

    inspect.aload = aload
    with pytest.raises(asyncio.CancelledError):
        await scaler.run(lambda decision: decided.append(decision.workers), every_s=0)
    assert decided == [1, 10, 20]


async def test_another_path_and_a_port_in_use(inspect, serve):
    port = await serve(scaler_of(inspect))
    assert await ask(port, "/") == (404, "Ask for /scale or /metrics.\n")
    with pytest.raises(NotConfigured, match=rf"scale port 127\.0\.0\.1:{port} cannot be opened: .* --serve 8099"):
        await HttpPort("scale port", "--serve 8099", scaler_of(inspect).answer).open("127.0.0.1", port)

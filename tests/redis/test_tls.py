"""TLS against a real server: the certificate is checked, and a wrong one is refused with the reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenure.core.errors import AccessDenied, NotConfigured, Unreachable
from tenure.redis.sync import SyncDriver
from tenure.testing.ports import Ports
from tenure.testing.server import RedisServer
from tests.redis.certificates import OPENSSL, Authority, has_tls
from tests.redis.conftest import Drive
from tests.redis.operations import command, record

pytestmark = [
    pytest.mark.every_server,
    pytest.mark.skipif(OPENSSL is None, reason="there is no openssl program to make certificates with"),
]
MakeDrive = Callable[..., Drive]


class Secure:
    """A server that speaks TLS on two ports: of a certificate for 127.0.0.1, and of one for another host."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.folder = folder
        ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
        self.ca, self.other_ca = ours.own.cert, theirs.own.cert
        self.client = ours.sign("client", "DNS:client")
        self.servers: list[RedisServer] = []
        self._ports = Ports()
        self.port = self._start(binary, ours, "here", "IP:127.0.0.1,DNS:localhost", "no")
        self.elsewhere = self._start(binary, ours, "elsewhere", "DNS:redis.example.org", "no")
        self.strict = self._start(binary, ours, "strict", "IP:127.0.0.1", "yes")

    def _start(self, binary: str, ours: Authority, name: str, host: str, clients: str) -> int:
        files = ours.sign(name, host).options(self.ca)
        if not self.servers and not has_tls(binary, files):
            pytest.skip("this server was built without TLS")
        port = self._ports.take()
        args = ["--tls-port", str(port), *files, "--tls-auth-clients", clients, "--requirepass", "s3cret"]
        server = RedisServer(binary, aof=False, args=args, password="s3cret")
        self.servers.append(server)
        server.start()
        return port

    def close(self) -> None:
        for server in self.servers:
            server.close()
        self._ports.close()

    def url(self, port: int, **options: object) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"rediss://:s3cret@127.0.0.1:{port}/0?{query}"


@pytest.fixture(scope="module")
def secure(redis_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    made = Secure(redis_binary, tmp_path_factory.mktemp("tls"))
    yield made
    made.close()


def test_a_verified_connection_carries_everything(secure: Secure, drive: MakeDrive) -> None:
    one = drive(secure.url(secure.port, ssl_ca_certs=secure.ca))
    assert one.run(record())[1] == 1
    payload = bytes(range(256)) * 10_000
    assert one.run(command("ECHO", payload)) == payload
    one.run(command("DEL", "log"))


def test_messages_come_over_tls(secure: Secure) -> None:
    driver = SyncDriver(secure.url(secure.port, ssl_ca_certs=secure.ca))
    with driver.subscribe("news") as messages, ThreadPoolExecutor(1) as pool:
        heard = pool.submit(messages.get, 10)
        driver.run(command("PUBLISH", "news", "hello"))
        assert heard.result(10) == b"hello"
        assert messages.get(0.05) is None
    driver.close()


@pytest.mark.parametrize(
    ("port", "options", "says"),
    [
        ("port", {}, "self.signed certificate"),
        ("port", {"ssl_ca_certs": "{theirs}"}, "is not trusted: self.signed"),
        ("elsewhere", {"ssl_ca_certs": "{ours}"}, "certificate is not valid for '127.0.0.1'"),
        ("strict", {"ssl_ca_certs": "{ours}"}, "certificate required|closed|reset|Broken pipe|EOF"),
    ],
)
def test_a_certificate_that_cannot_be_trusted_is_refused(
    secure: Secure, drive: MakeDrive, port: str, options: dict[str, str], says: str
) -> None:
    named = {name: text.format(ours=secure.ca, theirs=secure.other_ca) for name, text in options.items()}
    one = drive(secure.url(getattr(secure, port), **named), patience_ms=2_000)
    before = time.monotonic()
    with pytest.raises((AccessDenied, Unreachable), match=says) as caught:
        one.run(command("PING"))
    assert time.monotonic() - before < 10
    if port != "strict":
        # Trying again does not help, so nobody waits for it.
        assert isinstance(caught.value, AccessDenied)
        assert "ssl_ca_certs" in str(caught.value)
    assert "s3cret" not in f"{caught.value} {caught.value.__cause__!r}"


def test_what_the_url_waives_is_not_checked(secure: Secure, drive: MakeDrive) -> None:
    assert drive(secure.url(secure.elsewhere, ssl_cert_reqs="none")).run(command("PING")) == b"PONG"
    named = secure.url(secure.elsewhere, ssl_ca_certs=secure.ca, ssl_check_hostname="false")
    assert drive(named).run(command("PING")) == b"PONG"


def test_a_certificate_of_our_own_is_shown(secure: Secure, drive: MakeDrive) -> None:
    own = {"ssl_certfile": secure.client.cert, "ssl_keyfile": secure.client.key}
    assert drive(secure.url(secure.strict, ssl_ca_certs=secure.ca, **own)).run(command("PING")) == b"PONG"


def test_a_file_that_is_not_there_is_named(secure: Secure, drive: MakeDrive) -> None:
    with pytest.raises(NotConfigured, match="ssl_ca_certs"):
        drive(secure.url(secure.port, ssl_ca_certs="/nowhere/ca.crt")).run(command("PING"))


def test_plain_text_at_a_tls_port_and_the_other_way_round(
    secure: Secure, drive: MakeDrive, make_server: Callable[..., RedisServer]
) -> None:
    with pytest.raises(Unreachable):
        drive(f"redis://:s3cret@127.0.0.1:{secure.port}", patience_ms=100, connect_timeout_ms=1_000).run(
            command("PING")
        )
    server = make_server(tcp=True)
    with pytest.raises(Unreachable):
        drive(f"rediss://127.0.0.1:{server.port}", patience_ms=100, connect_timeout_ms=1_000).run(command("PING"))

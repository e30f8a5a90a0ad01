"""Which server a client of the redis package is connected to."""

from __future__ import annotations

from typing import Any

import pytest
import redis
import redis.asyncio
from redis.sentinel import Sentinel

from tenure.core.errors import InvalidArgument
from tenure.redis.clients import target_of, url_of
from tenure.redis.url import Target


@pytest.mark.parametrize("kind", [redis.Redis, redis.asyncio.Redis])
@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:6379/0",
        "redis://ann:s%40crit@example.org:7000/3",
        "unix:///run/redis.sock?db=2",
        "redis://[::1]:7000/3",
        "redis://:pa%3Fss%26w%2B%25%23%2F@h/0",
        "unix:///run/a%20b%3F.sock",
        "rediss://example.org/0",
        "rediss://example.org/0?ssl_ca_certs=ca.crt&ssl_check_hostname=false",
        "rediss://example.org/0?ssl_cert_reqs=none",
    ],
)
def test_a_client_has_the_target_of_its_url(kind: Any, url: str) -> None:
    client = kind.from_url(url)
    assert target_of(client) == Target.parse(url)
    assert Target.parse(url_of(client)) == Target.parse(url)


def test_a_client_without_a_url() -> None:
    assert target_of(redis.Redis(password="p", db=1)) == Target.parse("redis://:p@localhost:6379/1")


def test_objects_without_one_fixed_server_are_refused() -> None:
    master = Sentinel([("localhost", 1)]).master_for("shop")
    changing = redis.Redis(credential_provider=redis.UsernamePasswordCredentialProvider("u", "s3cret"))
    for client in (master, changing, object(), None, 6379):
        with pytest.raises(InvalidArgument, match="url must be the URL of Redis") as raised:
            target_of(client)
        assert "s3cret" not in str(raised.value)

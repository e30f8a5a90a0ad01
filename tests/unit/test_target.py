"""Redis URLs: what can be read, what is refused, and that a password is never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from leasehold.core.errors import NotConfigured
from leasehold.redis.target import Target, Tls


@pytest.mark.parametrize(
    ("url", "target", "shown"),
    [
        ("redis://localhost", Target("redis", "localhost"), "redis://localhost:6379/0"),
        ("redis://", Target("redis", "localhost"), "redis://localhost:6379/0"),
        ("redis://h:7000/3", Target("redis", "h", 7000, db=3), "redis://h:7000/3"),
        ("redis://h?db=3", Target("redis", "h", db=3), "redis://h:6379/3"),
        ("redis://[::1]:7000", Target("redis", "::1", 7000), "redis://[::1]:7000/0"),
        ("redis://:pw@h/0", Target("redis", "h", password="pw"), "redis://***@h:6379/0"),
        ("redis://u:p%40%3A%2F@h", Target("redis", "h", username="u", password="p@:/"), "redis://***@h:6379/0"),
        ("redis://:p@ss@h", Target("redis", "h", password="p@ss"), "redis://***@h:6379/0"),
        ("redis://h?protocol=3", Target("redis", "h", protocol=3), "redis://h:6379/0"),
        ("unix:///run/r.sock?db=2", Target("unix", path="/run/r.sock", db=2), "unix:///run/r.sock?db=2"),
        ("unix://u:pw@/r.sock", Target("unix", path="/r.sock", username="u", password="pw"), "unix://***@/r.sock"),
        ("unix:///r.sock?password=pw", Target("unix", path="/r.sock", password="pw"), "unix://***@/r.sock"),
        ("rediss://h", Target("rediss", "h", tls=Tls()), "rediss://h:6379/0"),
        ("embedded:/var/data", Target("embedded", path="/var/data"), "embedded:/var/data"),
        ("embedded:", Target("embedded"), "embedded:"),
    ],
)
def test_a_url_is_read_and_shown_without_its_password(url: str, target: Target, shown: str) -> None:
    assert Target.parse(url) == target
    assert str(Target.parse(url)) == shown
    assert repr(target) == f"Target({shown!r})"


def test_an_embedded_path_is_relative_to_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Target.parse("embedded:data").path == os.path.join(os.getcwd(), "data")


def test_tls_is_verified_unless_the_url_says_otherwise() -> None:
    assert Target.parse("rediss://h").tls == Tls(verify=True, check_hostname=True)
    assert Target.parse("rediss://h?ssl_cert_reqs=none").tls == Tls(verify=False, check_hostname=False)
    assert Target.parse("rediss://h?ssl_check_hostname=false").tls == Tls(verify=True, check_hostname=False)
    assert Target.parse("rediss://h?ssl_ca_certs=/ca.pem").tls.ca_certs == "/ca.pem"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:6379", "no scheme"),
        ("", "no scheme"),
        ("http://s3cret@h", "http:// is not a scheme"),
        ("s3cret@x://h", "no scheme"),
        ("redis://:s3cret@h:port", "port"),
        ("redis://:s3cret@h:99999", "port"),
        ("redis://user:s3cret/x@h", "port"),
        ("redis://:s3cret#x@h", "#"),
        ("redis://:s3cret@[h", "cannot be read"),
        ("redis://:s3cret@h/one", "database"),
        ("redis://:s3cret@h/-1", "database"),
        ("redis://:123/s3cret@h", "database"),
        ("redis://:s3cret@h?protocol=4", "protocol"),
        ("redis://:s3cret@h?socket_timeout=1", "`socket_timeout`"),
        ("redis://h?ssl_cert_reqs=none", "`ssl_cert_reqs`"),
        ("redis://h?s3cret!=1", "not known"),
        ("rediss://:s3cret@h?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
        ("unix://s3cret.sock", "absolute path"),
        ("unix://", "absolute path"),
    ],
)
def test_a_bad_url_is_refused_without_repeating_it(url: str, says: str) -> None:
    with pytest.raises(NotConfigured, match=r"Redis URL|unix://") as caught:
        Target.parse(url)
    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None

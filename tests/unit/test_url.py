"""Redis URLs: what can be read, what is refused, and that a password is never shown."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from tenure.core.errors import NotConfigured
from tenure.redis.url import Target, Tls, master_of, sentinel_of


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
        ("redis://h?protocol=3", Target("redis", "h"), "redis://h:6379/0"),
        ("unix:///run/r.sock?db=2", Target("unix", path="/run/r.sock", db=2), "unix:///run/r.sock?db=2"),
        ("unix://u:pw@/r.sock", Target("unix", path="/r.sock", username="u", password="pw"), "unix://***@/r.sock"),
        ("unix:///r.sock?password=pw", Target("unix", path="/r.sock", password="pw"), "unix://***@/r.sock"),
        ("rediss://h", Target("rediss", "h", tls=Tls()), "rediss://h:6379/0"),
        (
            "redis+cluster://u:p%40%3A%2F%25@a,b:7000,[::1]:2",
            Target("redis+cluster", username="u", password="p@:/%", seeds=(("a", 6379), ("b", 7000), ("::1", 2))),
            "redis+cluster://***@a:6379,b:7000,[::1]:2/",
        ),
        ("rediss+cluster://a,a/0?db=0", Target("rediss+cluster", seeds=(("a", 6379),)), "rediss+cluster://a:6379/"),
        (
            "redis+sentinel://a,b:1,[::1]:2/shop",
            Target("redis+sentinel", sentinels=(("a", 26379), ("b", 1), ("::1", 2)), service="shop"),
            "redis+sentinel://a:26379,b:1,[::1]:2/shop/0",
        ),
        (
            "redis+sentinel://u:p%40%3A%2F%25@a/shop/3?sentinel_username=s&sentinel_password=q%40",
            Target(
                "redis+sentinel",
                db=3,
                username="u",
                password="p@:/%",
                sentinels=(("a", 26379),),
                service="shop",
                sentinel_username="s",
                sentinel_password="q@",
            ),
            "redis+sentinel://***@a:26379/shop/3",
        ),
        (
            "rediss+sentinel://a,a/shop?db=2&ssl_ca_certs=/ca.pem",
            Target("rediss+sentinel", db=2, tls=Tls(ca_certs="/ca.pem"), sentinels=(("a", 26379),), service="shop"),
            "rediss+sentinel://a:26379/shop/2",
        ),
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
        ("http://s3cret@h", "no scheme http://"),
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
        ("redis://h?s3cret!=1", "unknown option"),
        ("rediss://:s3cret@h?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
        ("redis+sentinel://:s3cret@a,b", "service"),
        ("redis+sentinel://:s3cret@a,b/?db=1", "service"),
        ("redis+sentinel://:s3cret@/shop", "without a host"),
        ("redis+sentinel://:s3cret@a,,b/shop", "without a host"),
        ("redis+cluster://:s3cret@a/1", "a cluster has only 0"),
        ("redis+cluster://:s3cret@", "node without a host"),
        ("redis+sentinel://:s3cret/x@a/shop", "without a host"),
        ("redis+sentinel://:1s3cret/x@a/shop", "without a host"),
        ("redis+sentinel://u:s3cret@a:s3cret/shop", "port"),
        ("redis+sentinel://u:s3cret@a:[/shop", "cannot be read"),
        ("redis+sentinel://:s3cret@a/shop/s3cret", "database"),
        ("redis+sentinel://:s3cret@a/shop?socket_timeout=1", "`socket_timeout`"),
        ("redis+sentinel://:s3cret@a/shop?ssl_ca_certs=/x", "`ssl_ca_certs`"),
        ("redis+sentinel://:s3cret#x@a/shop", "#"),
        ("redis://:s3cret@a?sentinel_password=s3cret", "`sentinel_password`"),
        (f"redis+sentinel://:s3cret@{','.join(f'h{number}' for number in range(40))}/shop", "32 sentinels, got 40"),
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


AWKWARD = "a@b:c/d%e?f#g,h"


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:{}@h/0",
        "redis://h/0?username=user&password={}",
        "rediss://user:{}@h/0",
        "unix://user:{}@/r.sock",
        "redis+sentinel://user:{}@a,b/shop",
        "redis+sentinel://a,b/shop?username=user&password={}",
    ],
)
def test_any_password_can_be_given_encoded(url: str) -> None:
    target = Target.parse(url.format(quote(AWKWARD, safe="")))
    assert (target.username, target.password) == ("user", AWKWARD)
    for part in (AWKWARD, quote(AWKWARD, safe=""), "c/d"):
        assert part not in f"{target} {target!r}"


@pytest.mark.parametrize(
    "url", ["redis://user:{}@h/0", "rediss://:{}@h/0", "unix://:{}@/r.sock", "redis+sentinel://u:{}@a,b/shop"]
)
@pytest.mark.parametrize("password", ["s3cr/t", "s3cr#t", "s3cr?t", "s3cr[t", "s3:cr/t", "12/s3cr", "a@s3cr/t"])
def test_a_password_that_is_not_encoded_is_never_repeated(url: str, password: str) -> None:
    """Either it is understood, or the error says what to do."""
    try:
        said = repr(Target.parse(url.format(password)))
    except NotConfigured as error:
        said = str(error)
    assert "s3cr" not in said
    assert "s3:cr" not in said


def test_a_master_and_a_sentinel_have_each_their_own_user() -> None:
    target = Target.parse("rediss+sentinel://u:p@a/shop/3?sentinel_username=s&sentinel_password=q&protocol=3")
    assert master_of(target, ("10.0.0.1", 6380)) == Target.parse("rediss://u:p@10.0.0.1:6380/3?protocol=3")
    assert sentinel_of(target, ("a", 26379)) == Target.parse("rediss://s:q@a:26379/0")
    assert sentinel_of(Target.parse("redis+sentinel://u:p@a/shop"), ("a", 1)) == Target.parse("redis://a:1/0")

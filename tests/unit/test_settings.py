"""Settings: arguments first, then the environment, then defaults; and never a password in a text."""

import pytest

from tenure.core.errors import InvalidArgument, NotConfigured, TenureError
from tenure.settings import Settings, variables


def test_defaults():
    settings = Settings.load({})
    assert (settings.url, settings.namespace, settings.payload_limit) == (
        "redis://localhost:6379/0",
        "tenure",
        1 << 20,
    )


def test_arguments_win_then_ours_then_redis_url():
    environ = {"REDIS_URL": "redis://b", "TENURE_URL": "redis://a", "TENURE_NAMESPACE": "shop"}
    assert Settings.load(environ, url="redis://c").url == "redis://c"
    assert Settings.load(environ).url == "redis://a"
    assert Settings.load(environ | {"TENURE_URL": " "}).url == "redis://b"
    assert Settings.load(environ, namespace=None).namespace == "shop"


def test_numbers_from_the_environment():
    environ = {"TENURE_MAX_PAYLOAD": "1000", "TENURE_PATIENCE": "2.5", "TENURE_DURABLE": "1"}
    settings = Settings.load(environ)
    assert (settings.payload_limit, settings.patience, settings.durable) == (1_000, 2.5, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TENURE_MAX_PAYLOAD", "many"),
        ("TENURE_MAX_PAYLOAD", "0"),
        ("TENURE_MAX_PAYLOAD", "100000000000"),
        ("TENURE_PATIENCE", "nan"),
        ("TENURE_DURABLE", "-1"),
        ("TENURE_DURABLE", "yes"),
        ("TENURE_NAMESPACE", "a{b}"),
    ],
)
def test_wrong_values_name_the_variable(name, value):
    with pytest.raises(NotConfigured, match=name):
        Settings.load({name: value})


@pytest.mark.parametrize(
    "given",
    [
        {"url": ""},
        {"url": 5},
        {"namespace": ""},
        {"max_payload": 1.5},
        {"patience": -1},
        {"patience": 181},
        {"reply_timeout": 0},
        {"reply_timeout": 121},
        {"durable": 99},
    ],
)
def test_wrong_arguments(given):
    with pytest.raises(InvalidArgument):
        Settings.load({}, **given)


def test_no_password_in_texts():
    assert "s3cret" not in repr(Settings.load({}, url="redis://:s3cret@host/0"))
    with pytest.raises(TenureError) as caught:
        Settings.load({"TENURE_URL": "redis://:s3cret@host/0", "TENURE_PATIENCE": "s3cret"})
    assert "s3cret" not in str(caught.value)


def test_every_setting_has_a_meaning_and_a_variable():
    for name, variable in variables().items():
        assert variable.names[0] == f"TENURE_{name.upper()}"
        assert variable.meaning.endswith(".")

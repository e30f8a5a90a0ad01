"""The table of error replies: a text means one thing, whatever version of Redis or of the client it came through."""

from __future__ import annotations

import shlex
import socket

import pytest
import redis.exceptions as client

from tenure.core.errors import AccessDenied, QueueFull, ReplyError, TenureError, WrongState
from tenure.redis import replies
from tenure.redis.failures import ConnectionLost, ErrorReply, InvalidReply
from tenure.redis.link import reader
from tenure.redis.replies import ACTIONS, Reaction

WRONGTYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
SHA = "caeeee01384f6b04384c56d69c27aa65287fb306"


def refusal(text: str) -> ErrorReply:
    """Return the exception for an error reply, as the parser of our connections makes it."""
    parser = reader()
    parser.feed(f"-{text}\r\n".encode())
    error = parser.gets()
    assert isinstance(error, ErrorReply)
    return error


@pytest.mark.parametrize(
    ("text", "prefix", "message"),
    [
        (WRONGTYPE, "WRONGTYPE", WRONGTYPE),
        (f"{WRONGTYPE} script: {SHA}, on @user_script:1.", "WRONGTYPE", WRONGTYPE),
        (f"{WRONGTYPE} script: on @user_script:1.", "WRONGTYPE", WRONGTYPE),  # Valkey 9.1
        (f"ERR Error running script (call to f_{SHA}): @user_script:12: {WRONGTYPE}", "WRONGTYPE", WRONGTYPE),
        (
            f"ERR Error running script (call to f_{SHA}): @user_script:1: @user_script: 1: -OOM command not allowed",
            "OOM",
            "OOM command not allowed",
        ),
        (f"ERR user_script:3: TNSTALE gone script: {SHA}, on @user_script:3.", "TNSTALE", "TNSTALE gone"),
        ("TNSTALE", "TNSTALE", "TNSTALE"),
        ("-OOM command not allowed", "OOM", "OOM command not allowed"),
        ("ERR DB index is out of range", "ERR", "ERR DB index is out of range"),
        ("unknown command", "ERR", "unknown command"),
        ("ERR unknown command 'X', with args beginning with: 'secret' ", "ERR", "ERR unknown command 'X'"),
        ("ERR unknown command `X`, with args beginning with: `a`, `b`,", "ERR", "ERR unknown command `X`"),
        ("", "ERR", ""),
    ],
)
def test_the_first_word_that_counts_is_found(text: str, prefix: str, message: str) -> None:
    assert replies.read(text) == (prefix, message)


def test_an_error_of_lua_itself_stays_whole() -> None:
    text = f"ERR Error running script (call to f_{SHA}): @user_script:1: user_script:1: attempt to index a nil value"
    prefix, message = replies.read(text)
    assert prefix == "ERR"
    assert "attempt to index a nil value" in message


@pytest.mark.parametrize(
    "text", ["OOM command not allowed", "NOPERM no permissions", "NOAUTH Authentication required.", WRONGTYPE]
)
def test_the_parser_keeps_the_text_of_an_error_as_sent(text: str) -> None:
    assert replies.text_of(refusal(text)) == text


@pytest.mark.parametrize(
    ("error", "prefix"),
    [
        (client.OutOfMemoryError("command not allowed"), "OOM"),
        (client.ReadOnlyError("You can't write against a read only replica."), "READONLY"),
        (client.BusyLoadingError("Redis is loading the dataset in memory"), "LOADING"),
        (client.NoScriptError("No matching script."), "NOSCRIPT"),
        (client.NoPermissionError("no permissions"), "NOPERM"),
        (client.AuthenticationError("invalid password"), "WRONGPASS"),
        (client.ClusterDownError("CLUSTERDOWN The cluster is down"), "CLUSTERDOWN"),
        (client.ResponseError(WRONGTYPE), "WRONGTYPE"),
    ],
)
def test_a_prefix_that_the_client_took_off_is_put_back(error: Exception, prefix: str) -> None:
    assert replies.read(replies.text_of(error))[0] == prefix


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (client.ConnectionError("refused"), Reaction.RECONNECT),
        (ConnectionLost("closed"), Reaction.RECONNECT),
        (InvalidReply("garbage"), Reaction.RECONNECT),
        (refusal("ERR max number of clients reached"), Reaction.RECONNECT),
        (client.TimeoutError("slow"), Reaction.RECONNECT),
        (TimeoutError(), Reaction.RECONNECT),
        (ConnectionResetError(), Reaction.RECONNECT),
        (client.InvalidResponse("garbage"), Reaction.RECONNECT),
        (client.ConnectionError("max number of clients reached"), Reaction.RECONNECT),
        (client.ResponseError("max number of clients reached (100)"), Reaction.RECONNECT),
        (client.ResponseError("UNBLOCKED force unblock from blocking operation"), Reaction.RECONNECT),
        (client.ResponseError("BUSY Redis is busy running a script"), Reaction.RESEND),
        (refusal("LOADING Redis is loading"), Reaction.RESEND),
        (client.ResponseError("ERR whatever"), Reaction.RAISE),
        (TypeError("a bug"), Reaction.RAISE),
    ],
)
def test_every_failure_has_one_action(error: Exception, action: Reaction) -> None:
    assert replies.action_of(error) is action


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("OOM command not allowed", QueueFull),
        ("MISCONF Redis is configured to save RDB snapshots", QueueFull),
        ("NOAUTH Authentication required.", AccessDenied),
        ("WRONGPASS invalid username-password pair", AccessDenied),
        ("NOPERM this user has no permissions", AccessDenied),
        (WRONGTYPE, WrongState),
        ("TNSTALE it is gone", ReplyError),
        ("MOVED 1 127.0.0.1:1", replies.Redirected),
    ],
)
def test_every_reply_is_one_error(text: str, kind: type[TenureError]) -> None:
    error = replies.error_of(client.ResponseError(text), "redis://***@host:6379/0")
    assert type(error) is kind
    assert text.split()[1] in str(error)


def test_a_key_of_another_program_is_named() -> None:
    error = replies.error_of(client.ResponseError(WRONGTYPE), "redis://host:6379/0", "shop:{images}")
    assert "'shop:{images}'" in str(error)
    assert "redis-cli --scan --pattern 'shop:{images}*' and" in str(error)
    odd = replies.error_of(client.ResponseError(WRONGTYPE), "redis://host:6379/0", "{shop:[it's]*}")
    assert shlex.split(str(odd).partition("--pattern ")[2].partition(" and ask")[0]) == [r"{shop:\[it's\]\*}*"]


def caused(by: Exception) -> Exception:
    try:
        try:
            raise by
        except type(by):
            raise client.ConnectionError(f"Error connecting: {by}")  # noqa: B904
    except client.ConnectionError as error:
        return error


@pytest.mark.parametrize("cause", [ConnectionRefusedError(), socket.gaierror(-2, "unknown"), FileNotFoundError()])
def test_who_never_connected_did_nothing(cause: Exception) -> None:
    text = str(replies.unreachable("redis://host:6379/0", 10, caused(cause)))
    assert "did not respond for 10 s" in text
    assert "Nothing was done, unless an earlier attempt" in text
    assert "may or may not" not in text


@pytest.mark.parametrize(
    "last", [client.TimeoutError(), client.ConnectionError("Connection lost"), ConnectionResetError()]
)
def test_of_a_call_that_was_sent_nothing_is_known(last: Exception) -> None:
    assert "may or may not have been executed" in str(replies.unreachable("redis://host:6379/0", 10, last))


def test_the_table_has_no_action_without_a_prefix() -> None:
    assert set(ACTIONS.values()) == set(Reaction)


def test_a_prefix_that_is_not_in_the_table_is_raised() -> None:
    assert replies.action_for("NOSUCHTHING") is Reaction.RAISE


def test_a_connection_is_kept_only_after_a_complete_error_reply() -> None:
    assert replies.keeps_connection(refusal("ERR x"))
    assert not replies.keeps_connection(refusal("LOADING Redis is loading"))
    assert not replies.keeps_connection(refusal("NOAUTH Authentication required."))
    assert not replies.keeps_connection(ConnectionLost("lost"))
    assert not replies.keeps_connection(KeyboardInterrupt())


def test_who_was_refused_until_the_end_did_nothing() -> None:
    text = str(replies.unreachable("redis://host:6379/0", 10, refusal("READONLY You can't write against a replica.")))
    assert "did not respond successfully for 10 s (READONLY You can't write against a replica)" in text
    assert "nothing was done" in text
    assert "may or may not" not in text
    assert "URL of the master" in text


@pytest.mark.parametrize(
    ("url", "last", "hint"),
    [
        ("rediss://host:6379/0", client.TimeoutError(), "write redis://"),
        ("redis://host:6379/0", client.ConnectionError("Connection reset by peer"), "write rediss://"),
        ("redis://host:6379/0", client.TimeoutError(), ""),
        ("unix:///run/redis.sock", client.ConnectionError("Connection reset by peer"), ""),
    ],
)
def test_a_port_that_speaks_tls_or_not_is_thought_of(url: str, last: Exception, hint: str) -> None:
    text = str(replies.unreachable(url, 10, last))
    assert hint in text if hint else "TLS" not in text


def test_every_sentence_ends() -> None:
    text = str(replies.error_of(refusal("NOPERM this user may not run the 'evalsha' command"), "redis://host"))
    assert "'evalsha' command. Check the user name" in text

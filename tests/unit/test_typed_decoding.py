"""Calls that give every argument by position are decoded by type, with the same answers as all others."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.core.encoding.signature import Signature
from tenure.core.errors import PayloadInvalid


def one_int(n: int) -> None: ...
def one_text(text: str) -> None: ...
def one_float(x: float) -> None: ...
def one_bool(flag: bool) -> None: ...
def one_none(nothing: None) -> None: ...
def three(text: str, n: int, x: float = 0.5) -> None: ...
def named_only(n: int, *, text: str = "") -> None: ...
def nothing() -> None: ...


FUNCTIONS = (one_int, one_text, one_float, one_bool, one_none, three, named_only, nothing)
VALUES = ("1", "1.0", "1.5", "-0", "0.0", "true", "null", '"a"', '"\\u00e4"', '"1"', "[]", "{}", "[1]", "1e5", "1e999")
LARGE = (str(2**53), str(2**63), str(2**64), str(-(2**70)), "1" * 400, "1" * 5_000)


def answer(decode: Callable[[bytes], Any], payload: bytes) -> object:
    try:
        args, named = decode(payload)
    except PayloadInvalid as error:
        return str(error)
    return [(type(one), repr(one)) for one in args], named, type(args)


SIGNATURES = {function: Signature("t", function) for function in FUNCTIONS}


def same(function: Callable[..., Any], payload: bytes) -> None:
    signature = SIGNATURES[function]
    assert answer(signature.decode, payload) == answer(signature._decode_plain, payload)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_every_kind_of_value(function: Callable[..., Any]) -> None:
    for value in (*VALUES, *LARGE):
        same(function, f"[[{value}],{{}}]".encode())
        same(function, f'[["a",{value}],{{}}]'.encode())
        same(function, f'[["a",7,{value}],{{}}]'.encode())
        same(function, f'[[7],{{"text":{value}}}]'.encode())


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
DEEP = b"[" * 2_000 + b"]" * 2_000
NO_CALLS = (b"", b"[", b"[[7]]", b"[[7],{},1]", b"[[7],[]]", b'{"a":1}', b"null", b"[[7],{}] ", b"[[7],{}]x", b"\xff")
ODD_CALLS = (b'[["\xff"],{}]', b'[["\\ud800"],{}]', DEEP, b"[[" + DEEP + b"],{}]", b'[[7],{"a":' + DEEP + b"}]")


@pytest.mark.parametrize("payload", [*NO_CALLS, *ODD_CALLS], ids=lambda payload: repr(payload[:20]))
def test_what_is_no_call(payload: bytes) -> None:
    for function in FUNCTIONS:
        same(function, payload)


@settings(deadline=None, max_examples=50)
@given(st.lists(SCALARS, max_size=4))
def test_any_values(args: list[Any]) -> None:
    payload = json.dumps([args, {}]).encode()
    for function in FUNCTIONS:
        same(function, payload)

"""Loads the app of the command line: MODULE:APP, or MODULE:FUNCTION that returns it. No other code imports a name that
is not in the source."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from tenure.app.app import Tenure
from tenure.cli.errors import UserError
from tenure.core.errors import NotConfigured, TenureError
from tenure.core.hints import did_you_mean

K = TypeVar("K")
_MAX_FRAMES: Final = 8
_OURS: Final = str(Path(__file__).parents[1])
_MAX_NAMES: Final = 5
_MAX_MESSAGE: Final = 500


def load(target: str) -> Tenure:
    """Return the app that `target` names, or that its function returns. The current directory is searched first.

        load("myproject.jobs:app")
        load("myproject.jobs:holder.app")
        load("myproject.jobs:create_app")

    Raises `UserError`.
    """
    return load_object(target, Tenure, "app")


def load_object(target: str, kind: type[K], word: str) -> K:
    """Return an object of this class as `load` returns an app. `word`: what messages call it."""
    expected = f"Expected MODULE:{word.upper()}, as in myproject.jobs:{word}"
    article = "an" if word[0] in "ao" else "a"
    rule = f"{'an' if kind.__name__[0] in 'AO' else 'a'} {kind.__name__}"
    module_name, colon, name = target.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").removeprefix("./").strip("/").replace("/", ".")
        raise UserError(f"{target!r} names a file. {expected}; did you mean {dotted}:{name or word}?")
    if not re.fullmatch(r"\w+(\.\w+)*", module_name):
        raise UserError(f"{target!r} does not name {article} {word}. {expected}.")
    module = _import(module_name)
    if not colon or not name:
        raise UserError(f"{target!r} does not name the {word} of the module. {expected}.{_found_in(module, kind)}")
    found, must = _attribute(module, name, kind), "be"
    if inspect.isroutine(found):
        try:
            inspect.signature(found).bind()
        except (TypeError, ValueError):
            raise UserError(f"{target} is a function that needs arguments; expected {rule}, or one without.") from None
        must = "return"
        with blaming(f"{target} could not make the {word}."):
            found = found()
    if isinstance(found, kind):
        return found
    todo = _found_in(module, kind)
    if inspect.iscoroutine(found):
        found.close()  # or Python warns that it was never awaited
        todo = f" Make the {word} in a function without `async`."
    raise UserError(f"{target} must {must} {rule}, got {type(found).__name__}.{todo}")


def _attribute(module: ModuleType, path: str, kind: type[Any]) -> Any:
    """Return the attribute of the module at this path, which may have dots."""
    found: Any = module
    for word in path.split("."):
        with blaming(f"{module.__name__}:{path} could not be read."):
            try:
                found = getattr(found, word)
            except AttributeError as error:
                if error.obj is not found or error.name != word:  # the code of a property raised this
                    raise
                near = _found_in(module, kind) or did_you_mean(word, dir(found))
                raise UserError(f"The module {module.__name__!r} has no {path!r}.{near}") from None
    return found


def _import(name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    with blaming(f"The module {name!r} could not be imported."):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
                raise UserError(_not_found(name, error.name, here)) from None
            raise


@contextmanager
def blaming(failed: str) -> Iterator[None]:
    """Turn an error of the user's code into a `UserError`. A wrong environment variable is not its fault."""
    try:
        yield
    except (KeyboardInterrupt, UserError):
        raise
    # SystemExit too: a module that ends the process at its import would give no reason.
    except BaseException as error:
        if isinstance(error, NotConfigured) and error.variable is not None:
            raise UserError(str(error)) from None
        refuse_patched()
        raise UserError(f"{failed} {_raised(error)}") from None


def refuse_patched() -> None:
    """Raises `UserError` when code of the user has replaced the threads and sockets of Python.

    gevent's `patch_all` in a module that a worker imports fails with an error that does not name it, or later.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and any(map(monkey.is_module_patched, ("threading", "socket", "select"))):
        raise UserError(
            "A module of the app calls gevent's monkey.patch_all. A worker needs the threads and sockets of Python. "
            "Call patch_all only in programs that run on gevent, as in the start script of a web server, and not in a "
            "module that the worker imports. Such programs can enqueue jobs."
        )


def _not_found(name: str, missing: str, here: str) -> str:
    parent, dot, _ = missing.rpartition(".")
    modules = pkgutil.iter_modules([str(Path(here, *parent.split(".")))], parent + dot)
    near = did_you_mean(missing, [module.name for module in modules])
    todo = " Run the command where the module is, or install its package into this environment."
    return f"There is no module {missing!r} (looked in {here} and where Python finds packages).{near or todo}"


def _found_in(module: ModuleType, kind: type[Any]) -> str:
    names = [f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, kind)]
    more = ", ..." if len(names) > _MAX_NAMES else "."
    return f" It has: {', '.join(names[:_MAX_NAMES])}{more}" if names else ""


def _raised(error: BaseException) -> str:
    """Return the error and its place, without the source lines: they may contain a password."""
    if isinstance(error, SyntaxError):
        text, places = str(error.msg), [f"{error.filename}:{error.lineno}"]
    else:
        try:
            text = str(error)[:_MAX_MESSAGE]
        except Exception:
            text = "(its text cannot be shown)"
        # The frames of the user's module and below: without this file and the import machinery.
        frames = [
            (frame.f_code.co_filename, f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}")
            for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename != __file__ and "importlib" not in frame.f_code.co_filename
        ]
        if isinstance(error, TenureError):  # a refusal: the user's code ends where it calls Tenure
            frames = list(takewhile(lambda frame: not frame[0].startswith(_OURS), frames)) or frames
        places = [place for _, place in frames]
    where = "".join(f"\n  {place}" for place in places[-_MAX_FRAMES:])
    return f"It raised:\n  {type(error).__name__}: {text}\nat:{where}"

"""Who may do what in the dashboard: roles, the password file, and the limit on failed passwords."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import os
import secrets
import stat
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from inspect import isawaitable
from typing import Final, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from tenure.core.errors import InvalidArgument, NotConfigured, invalid
from tenure.core.names import shown
from tenure.runtime.log import log_event
from tenure.web.actions import TABLE

ACTIONS: Final = tuple(TABLE)
"""What a role may allow."""
PAYLOAD: Final = "payload"
"""The right to see payloads, results and headers."""
ROLES: Final = {"viewer": frozenset[str](), "operator": frozenset((*ACTIONS, PAYLOAD))}
Role: TypeAlias = str | Collection[str] | None
Authorize: TypeAlias = Callable[[Request], Role | Awaitable[Role]]

FAILURES_MAX: Final = 5
FAILURES_S: Final = 60.0
ADDRESSES_MAX: Final = 10_000
"""Addresses with failed passwords that are remembered. Above it, the oldest are forgotten."""
_N, _R, _P = 2**14, 8, 1
_BASIC: Final = 'Basic realm="tenure", charset="UTF-8"'
_KNOWN_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks, and what they may do."""

    name: str
    rights: frozenset[str]


class AccessRefused(Exception):
    """A request without a visitor: the status, the text and the headers of the answer."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def rights_of(role: Role) -> frozenset[str]:
    """Return the rights of a role. Raises `InvalidArgument` for one that does not exist."""
    if isinstance(role, str):
        if role in ROLES:
            return ROLES[role]
        raise invalid("role", f"{' or '.join(map(repr, ROLES))}, or a set of actions", shown(role))
    if role is not None and not isinstance(role, Collection):
        raise invalid("role", "a text or a set of actions", type(role).__name__)
    given = frozenset(role or ())
    if unknown := sorted(map(str, given - ROLES["operator"])):
        raise invalid("role", f"actions among {', '.join((*ACTIONS, PAYLOAD))}", ", ".join(map(shown, unknown)))
    return given


class Access:
    """Finds out who asks: by a function of the app, by the password file, or without either."""

    def __init__(
        self, authorize: Authorize | None = None, passwords: Passwords | None = None, *, read_only: bool = False
    ) -> None:
        self._authorize = authorize
        self._passwords = passwords
        self._allowed = frozenset({PAYLOAD}) if read_only else ROLES["operator"]

    async def visitor(self, request: Request) -> Visitor:
        """Return who asks. Raises `AccessRefused`."""
        name, rights = "unnamed", ROLES["operator"]
        if self._passwords is not None:
            name, rights = await self._passwords.check(request)
        elif self._authorize is not None:
            role = self._authorize(request)
            if isawaitable(role):
                role = await role
            if role is None or role == "" or not isinstance(role, str | Collection):
                raise AccessRefused(403, "You may not see this dashboard.")
            try:
                rights = rights_of(role)
            except InvalidArgument as error:
                raise AccessRefused(500, f"authorize: {error}") from None
            user = request.scope.get("user")
            name = getattr(user, "display_name", "") or (role if isinstance(role, str) else "user")
        elif not is_local(address_of(request)):
            raise AccessRefused(
                403, "Without authorize= or a password file, the dashboard serves only its own machine."
            )
        return Visitor(str(name), rights & self._allowed)


class Passwords:
    """The users of a password file, a line each: `name:role:scrypt$salt$hash`. Raises `NotConfigured`."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._read_at = path, 0
        self._users = read_users(path)
        if not self._users:
            raise NotConfigured(f"The password file {path!r} has no user. Add one: {_ADVICE.format(path)}")
        self._clock = clock
        self._failures: dict[str, list[float]] = {}
        self._one = asyncio.Lock()
        self._secret = secrets.token_bytes(16)
        self._known: dict[bytes, str] = {}
        """Passwords that were right, hashed with a secret of this process: scrypt takes long by intention."""

    async def check(self, request: Request) -> tuple[str, frozenset[str]]:
        """Return the name and the rights of the user with the password of the request. Raises `AccessRefused`."""
        self._read()
        address, header = address_of(request), request.headers.get("authorization", "")
        self._check_failures(address)
        if not header:
            raise AccessRefused(401, "A name and a password are needed.", www_authenticate=_BASIC)
        name, password = _basic(header)
        role, right = self._users.get(name, ("", _NOBODY))
        seen = hmac.digest(self._secret, f"{name}:{password}".encode("utf-8", "surrogateescape"), "sha256")
        if self._known.get(seen) != right:
            async with self._one:  # scrypt takes 16 MB, and many guesses at once must count each
                self._check_failures(address)
                if not await run_in_threadpool(is_right, password, right) or not role:
                    self._note_failure(address, name)
                    raise AccessRefused(401, "The name or the password is wrong.", www_authenticate=_BASIC)
            while len(self._known) >= _KNOWN_MAX:
                del self._known[next(iter(self._known))]
            self._known[seen] = right
        return name, ROLES[role]

    def _check_failures(self, address: str) -> None:
        since = self._clock() - FAILURES_S
        if sum(at > since for at in self._failures.get(address, ())) >= FAILURES_MAX:
            raise AccessRefused(429, "Too many wrong passwords from your address. Wait a minute.", retry_after="60")

    def _note_failure(self, address: str, name: str) -> None:
        log_event("login_failed", address=address, user=name)
        self._failures[address] = [*self._failures.pop(address, ()), self._clock()][-FAILURES_MAX:]
        while len(self._failures) > ADDRESSES_MAX:
            del self._failures[next(iter(self._failures))]

    def _read(self) -> None:
        """Read the file if it has changed. One that cannot be used lets no user in."""
        try:
            changed = os.stat(self._path).st_mtime_ns
        except OSError:
            changed = -1
        if changed != self._read_at:
            try:
                self._users = read_users(self._path)
            except NotConfigured as error:
                log_event("login_failed", error=str(error))
                raise AccessRefused(503, "The password file of this dashboard cannot be used: see its log.") from None
            self._read_at = changed


def _basic(header: str) -> tuple[str, str]:
    """Return the name and the password of an Authorization header; empty for another scheme."""
    scheme, _, value = header[:2_000].partition(" ")
    try:
        name, _, password = b64decode(value, validate=True).decode().partition(":")
    except ValueError:
        return "", ""
    return (name, password) if scheme.lower() == "basic" else ("", "")


_ADVICE: Final = "tenure dashboard --add-user NAME --role operator --password-file {}"


def read_users(path: str) -> dict[str, tuple[str, str]]:
    """Read a password file: name → role and hash. Raises `NotConfigured`."""
    try:
        mode = os.stat(path).st_mode
        with open(path, encoding="utf-8") as file:
            lines = file.read(1_000_000).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise NotConfigured(f"The password file {path!r} cannot be read: {reason}.") from None
    if mode & (stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH):
        raise NotConfigured(f"Others can read or change the password file {path!r}. Run `chmod 600` on it.")
    users: dict[str, tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, rest = line.partition(":")
        role, _, right = rest.partition(":")
        if not name or role not in ROLES or not right.startswith("scrypt$"):
            raise NotConfigured(
                f"Line {number} of {path!r} is no user: expected name:role:scrypt$..., with the role "
                f"{' or '.join(ROLES)}. Write it with: {_ADVICE.format(path)}"
            )
        users[name] = (role, right)
    return users


def add_user(path: str, name: str, role: str, password: str) -> None:
    """Add a user to a password file, or replace one. Raises `InvalidArgument` and `NotConfigured`."""
    if not name or not name.isprintable() or ":" in name or name.startswith("#"):
        raise invalid("name", "a name of printable characters without a colon", shown(name))
    rights_of(role)
    if len(password) < 8:
        raise InvalidArgument("A password needs at least 8 characters.")
    lines: list[str] = []
    if os.path.exists(path):
        read_users(path)
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if line.partition(":")[0] != name]
    lines.append(f"{name}:{role}:{hashed(password)}")
    new = f"{path}.{secrets.token_hex(4)}"
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(new, path)
    except OSError as error:
        raise NotConfigured(f"The password file {path!r} cannot be written: {error.strerror}.") from None


def hashed(password: str, salt: bytes | None = None) -> str:
    """Return `scrypt$<salt>$<hash>` (RFC 7914, N=16384, r=8, p=1)."""
    salt = secrets.token_bytes(16) if salt is None else salt
    key = hashlib.scrypt(password.encode("utf-8", "surrogateescape"), salt=salt, n=_N, r=_R, p=_P)
    return f"scrypt${b64encode(salt).decode()}${b64encode(key).decode()}"


_NOBODY: Final = f"scrypt${b64encode(bytes(16)).decode()}${b64encode(bytes(64)).decode()}"
"""The hash of an unknown name: it takes as long to check."""


def is_right(password: str, right: str) -> bool:
    """Whether a password is the one of a hash."""
    _, _, rest = right.partition("$")
    try:
        salt = b64decode(rest.partition("$")[0], validate=True)
    except ValueError:
        return False
    return hmac.compare_digest(hashed(password, salt), right)


def is_local(address: str) -> bool:
    """Whether only this machine can have an address."""
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def address_of(request: Request) -> str:
    """Return the address of the client."""
    return request.client.host if request.client else ""

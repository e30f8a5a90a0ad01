"""The commands and the replies that pass on one connection, for proxies that harm single ones of several in a write."""

from __future__ import annotations

from collections import deque

import hiredis


class Exchange:
    """The commands that a client has sent, whole and in order, and how many replies it waits for."""

    def __init__(self) -> None:
        self._begun = b""
        self._reader = hiredis.Reader()
        self.commands: deque[bytes] = deque()
        self.waiting = 0

    def sent(self, piece: bytes) -> None:
        """Note what the client has sent: any piece of its commands."""
        self._begun += piece
        while (size := _length(self._begun)) is not None:
            self.commands.append(self._begun[:size])
            self._begun = self._begun[size:]

    def pass_on(self) -> bytes:
        """Take the next command, to send it to the server."""
        self.waiting += 1
        return self.commands.popleft()

    def replied(self, piece: bytes) -> None:
        """Note what the server has sent: any piece of its replies."""
        self._reader.feed(piece)
        while self._reader.gets() is not False:
            self.waiting = max(0, self.waiting - 1)


def _length(data: bytes) -> int | None:
    """Return how long the first command is; None: not all of it is here."""
    end = data.find(b"\r\n")
    if end < 0:
        return None
    if data[:1] != b"*":
        return len(data)
    size = end + 2
    for _ in range(int(data[1:end])):
        end = data.find(b"\r\n", size)
        if end < 0:
            return None
        size = end + 2 + int(data[size + 1 : end]) + 2
    return size if size <= len(data) else None

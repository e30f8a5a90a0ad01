"""Ports that no other process takes before the servers of a test listen on them."""

from __future__ import annotations

import socket
import sys
from typing import Final

_IS_SHARED: Final = sys.platform == "linux"
"""Whether a server may listen on a port to which another process has bound a socket that does not listen."""


class Ports:
    """Reserved ports of 127.0.0.1, until `close`.

        ports = Ports()
        server = RedisServer(path, args=["--tls-port", str(ports.take())])

    Tests run in several processes. Another process may take a port that was only looked at before the server starts. So
    the port is bound here, which no second process can do. Then `SO_REUSEADDR` lets a server that sets it, too, listen
    on the port, as Redis does. On other systems than Linux a port is only looked at.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def take(self, port: int = 0) -> int:
        """Reserve this port, or with 0 any free one, and return it. Raises `OSError` if another process has it."""
        keeper = socket.socket()
        try:
            keeper.bind(("127.0.0.1", port))
            found: int = keeper.getsockname()[1]
        except OSError:
            keeper.close()
            raise
        if _IS_SHARED:
            keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sockets.append(keeper)
        else:
            keeper.close()
        return found

    def close(self) -> None:
        """Release the ports."""
        while self._sockets:
            self._sockets.pop().close()

"""A socket on the loopback interface, which only programs of this machine reach."""

from __future__ import annotations

import socket

from lore.errors import LoreError, reason_of

ADDRESS = "127.0.0.1"


def open_listener(port: int) -> socket.socket:
    """Return a socket that listens on the loopback interface, on a free port for 0. Raises LoreError."""
    try:
        listener = socket.create_server((ADDRESS, port), backlog=64)
    except (OSError, OverflowError) as error:
        message = f"cannot listen on {ADDRESS}:{port}: {reason_of(error)}"
        raise LoreError(message, hint="--port 0 takes one that is free") from None
    # Connections inherit it; asyncio sets it only on sockets that name their protocol, which these do not. Without it
    # an answer in two pieces waits 40 ms for the client's acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener

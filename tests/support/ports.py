"""Ports for servers that a test starts under an address of its choice."""

from __future__ import annotations

import secrets
import socket

_FIRST, _LAST = 10_240, 32_700
"""Below what the kernel gives to whoever asks for any port: none of these is taken between the look and the start, nor
while a server that keeps its address is down."""


def free_port() -> int:
    """A port nobody listens on just now, with the next one free as well."""
    while True:
        port = _FIRST + secrets.randbelow(_LAST - _FIRST)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port

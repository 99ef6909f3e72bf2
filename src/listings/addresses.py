"""Addresses to listen on: seen to be free before anything starts, and shared by several processes."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

from core.settings import split_address
from listings.output import UsageError


def see_that_free(addresses: Mapping[str, str | None]) -> None:
    """See that all these addresses can be listened on, by this machine and at the same time.

    Args:
        addresses: ``HOST:PORT`` by the setting's name; None is passed over, port 0 is always free.

    Raises:
        UsageError: one cannot; names the setting.
    """
    with contextlib.ExitStack() as bound:
        for name, address in addresses.items():
            if address is not None:
                bound.enter_context(contextlib.closing(listener(name, address)))


def listener(name: str, address: str, *, shared: bool = False) -> socket.socket:
    """A bound, listening socket.

    Args:
        name: of the setting, for the error.
        address: ``HOST:PORT``.
        shared: other processes listen on the same address; the kernel spreads connections over them.

    Raises:
        UsageError: it cannot be had.
    """
    host, port = split_address(address)
    made: socket.socket | None = None
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(where)
        made.listen(2048)
        made.setblocking(False)
    except OSError as error:
        if made is not None:
            made.close()
        raise UsageError(f"{name}: cannot listen on {address} ({error.strerror})") from None
    except UnicodeError:
        raise UsageError(f"{name}: cannot listen on {address} (not the name of a host)") from None
    return made


def nth(address: str | None, index: int) -> str | None:
    """The address with its port raised by ``index``: metrics of the processes that share everything else."""
    if address is None:
        return None
    host, port = split_address(address)
    if port == 0:
        return address
    if port + index > 65535:
        raise UsageError("LISTINGS_METRICS_ADDR: its port counts up with the processes, beyond 65535")
    return f"[{host}]:{port + index}" if ":" in host else f"{host}:{port + index}"

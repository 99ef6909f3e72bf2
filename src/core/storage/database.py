"""Connections and transactions.

Connections stay in autocommit; a transaction is always explicit and short (rule 3). Nothing is kept on a
connection between two uses (rule 66).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
import psycopg
import structlog
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from core.errors import ApiError, internal
from core.storage.wake import WakeUps

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Committed = Callable[[Connection], Awaitable[T | None]]

log = structlog.get_logger("core.storage")

set_json_loads(msgspec.json.decode)
set_json_dumps(msgspec.json.encode)
# Every whole number goes as bigint: by default its size chooses the type, and a statement is prepared and planned anew
# for every mixture of sizes.
psycopg.adapters.register_dumper(int, Int8Dumper)

MAX_TRIES = 5
"""Tries of one transaction (rule 7)."""
IDLE_SECONDS = 5
"""How long a transaction may wait for its client. Ours do nothing between two statements, so one that waits belongs to
a process that stands still, and what it has locked must not stand still with it: a lease of its would be rescued that
much later."""

_RETRIED = frozenset({"40001", "40P01", "25P03", "57P01", "57P02", "57P03"})
"""25P03: the server ended a transaction that waited for its client."""
_DEAD = frozenset({"25006", "25P03", "57P01", "57P02", "57P03"})
"""25006: the server became read-only (a failover): the connection is of no more use (rule 65)."""

DatabaseError = psycopg.Error
"""What storage raises when the database itself fails."""
DatabaseAway = PoolTimeout
"""What ``Database.open`` raises when no connection is to be had in time."""


def is_transient(error: BaseException) -> bool:
    """Whether the same transaction may succeed on another try."""
    if isinstance(error, psycopg.Error):
        state = error.sqlstate
        if state is None:
            return isinstance(error, psycopg.OperationalError)
        return state in _RETRIED or state == "25006" or state.startswith("08")
    return isinstance(error, PoolTimeout)


class Database:
    """A pool of connections to one database.

    Args:
        url: libpq connection string or URL. Secret: never logged.
        max_size: connections at most.
        statement_timeout: seconds a statement may take.
        acquire_timeout: seconds to wait for a free connection before the caller is told 503.
        prepare: whether statements are prepared on the server (off behind a transaction pooler).
        notify: whether workers are told of due work at once (off behind a transaction pooler).
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        max_size: int = 10,
        statement_timeout: float = 15.0,
        acquire_timeout: float = 3.0,
        prepare: bool = True,
        notify: bool = True,
    ) -> None:
        self.url = url
        self.wake_ups = WakeUps(self, enabled=notify)
        self._acquire_timeout = acquire_timeout
        milliseconds = int(statement_timeout * 1000)
        self.options: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": 2 if prepare else None,
            "connect_timeout": 5,
            "application_name": f"listings {name}",
            "options": (
                f"-c statement_timeout={milliseconds} -c idle_in_transaction_session_timeout={IDLE_SECONDS}s "
                "-c TimeZone=UTC"
            ),
        }
        self.pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            kwargs=self.options,
            min_size=1,
            max_size=max_size,
            max_lifetime=1800,
            max_idle=300,
            timeout=acquire_timeout,
            # The pool doubles its delay between attempts without bound; giving up soon and starting anew
            # on the next demand heals within seconds of the database's return (rule 65).
            reconnect_timeout=3.0,
            open=False,
        )

    async def open(self, wait: float = 30.0) -> None:
        """Open the pool and wait for a first connection.

        Raises:
            PoolTimeout: no connection within ``wait`` seconds.
        """
        await self.pool.open()
        try:
            await self.pool.wait(wait)
        except PoolTimeout:
            await self.pool.close()
            raise

    def usage(self) -> tuple[int, int, int]:
        """Connections in use, idle ones, and callers that wait for one."""
        stats = self.pool.get_stats()
        idle = stats["pool_available"]
        return stats["pool_size"] - idle, idle, stats.get("requests_waiting", 0)

    async def close(self) -> None:
        """Close the pool; waits for connections in use for a moment only."""
        await self.wake_ups.aclose()
        await self.pool.close(timeout=5)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection for single statements, each its own transaction.

        Raises:
            ApiError: E_INTERNAL when no connection is to be had.
        """
        try:
            connection = await self.pool.getconn(self._acquire_timeout)
        except (PoolTimeout, PoolClosed, psycopg.OperationalError) as error:
            log.warning("database_unavailable", error=type(error).__name__)
            raise internal() from error
        try:
            yield connection
        except psycopg.Error as error:
            if error.sqlstate in _DEAD or connection.closed:
                await connection.close()
            raise
        finally:
            await self.pool.putconn(connection)

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a read; tried again on another connection when the first turns out to be dead."""
        return await self._tried(work, transaction=False, committed=None)

    async def transact(self, work: Callable[[Connection], Awaitable[T]], committed: Committed[T] | None = None) -> T:
        """Run ``work`` in one transaction, again when the database asks for it.

        Args:
            work: everything of the transaction; may run several times, so it changes nothing but the
                database.
            committed: reads back what an earlier try may have committed when its answer was lost
                (rule 8); None from it means that nothing was committed. Without it an unknown commit
                is an error.

        Raises:
            ApiError: E_INTERNAL when the database is away, or what ``work`` raises.
        """
        return await self._tried(work, transaction=True, committed=committed)

    async def _tried(
        self, work: Callable[[Connection], Awaitable[T]], *, transaction: bool, committed: Committed[T] | None
    ) -> T:
        unknown = False
        for tried in range(1, MAX_TRIES + 1):
            committing = False
            try:
                async with self.connection() as connection:
                    if unknown and committed is not None:
                        found = await committed(connection)
                        if found is not None:
                            return found
                        unknown = False
                    if not transaction:
                        return await work(connection)
                    async with connection.transaction():
                        result = await work(connection)
                        committing = True
                    return result
            except psycopg.Error as error:
                if not is_transient(error):
                    raise
                if committing and (error.sqlstate is None or error.sqlstate.startswith(("08", "57"))):
                    if committed is None:
                        log.warning("commit_unknown", sqlstate=error.sqlstate)
                        raise internal() from error
                    unknown = True
                log.info("transaction_tried_again", tried=tried, sqlstate=error.sqlstate)
                if tried == MAX_TRIES:
                    raise internal() from error
                if error.sqlstate not in ("40001", "40P01"):
                    # One dead connection means that the idle ones are dead too: five tries must not be
                    # spent on five of them.
                    await self.pool.check()
            except ApiError:
                # No connection: with a commit in doubt the caller must not be told "nothing happened"
                # by a plain retry elsewhere; E_INTERNAL says exactly "not known".
                raise
            await asyncio.sleep(random.uniform(0, 0.05 * 2**tried))  # noqa: S311 - spread, not secrecy
        raise internal()

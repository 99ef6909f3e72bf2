"""The least between a NOTIFY and a watcher: one LISTEN, one server-streaming method, a queue for each watcher.

The database comes as LISTINGS_DATABASE_URL. Says ``ready HOST:PORT``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import psycopg
import uvloop

from listing_publication.v1 import jobs_pb2, jobs_pb2_grpc

queues: dict[str, asyncio.Queue[None]] = {}


class Servicer(jobs_pb2_grpc.JobServiceServicer):
    """Passes every notification of a job on to its watcher."""

    async def WatchJob(  # noqa: N802
        self, request: jobs_pb2.WatchJobRequest, context: Any
    ) -> AsyncIterator[jobs_pb2.WatchJobResponse]:
        """Counters that say nothing, one message a notification."""
        queue = queues[request.job_id] = asyncio.Queue()
        yield jobs_pb2.WatchJobResponse(job=jobs_pb2.Job(job_id=request.job_id))
        while True:
            await queue.get()
            yield jobs_pb2.WatchJobResponse(progress=jobs_pb2.Progress(status="processing", pending=1))


async def listen() -> None:
    """Hear notifications for ever."""
    connection = await psycopg.AsyncConnection.connect(os.environ["LISTINGS_DATABASE_URL"], autocommit=True)
    await connection.execute("LISTEN job_changed")
    async for notification in connection.notifies():
        queue = queues.get(notification.payload.partition(":")[2])
        if queue is not None:
            queue.put_nowait(None)


async def main() -> None:
    """Serve until SIGTERM."""
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    listening = asyncio.create_task(listen())
    server = grpc.aio.server()
    jobs_pb2_grpc.add_JobServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"ready 127.0.0.1:{port}\n")
    sys.stdout.flush()
    await ending.wait()
    listening.cancel()
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(main())

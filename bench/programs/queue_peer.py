"""No-op workers of other queues: ``python -m bench.programs.queue_peer pgqueuer BATCH``.

Access to the database comes as JSON in BENCH_DATABASE. Works until it is ended.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import AsyncpgPoolDriver, PgQueuer
from pgqueuer.models import Job

ACCESS = json.loads(os.environ["BENCH_DATABASE"])


async def main(batch: int) -> None:
    """Take jobs and do nothing with them."""
    pool = await asyncpg.create_pool(**{**ACCESS, "port": int(ACCESS["port"])}, min_size=4, max_size=10)
    queue = PgQueuer(AsyncpgPoolDriver(pool))

    @queue.entrypoint("item")
    async def item(job: Job) -> None:
        return None

    sys.stdout.write("queue ready\n")
    sys.stdout.flush()
    await queue.run(batch_size=batch, dequeue_timeout=timedelta(seconds=1))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))

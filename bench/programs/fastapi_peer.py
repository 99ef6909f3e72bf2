"""The usual way: FastAPI, pydantic, and a table through SQLAlchemy or asyncpg. No keys, no idempotency, no credits.

Access to the database comes as JSON in BENCH_DATABASE. Says ``ready http://HOST:PORT``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any

import asyncpg
import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, Field, model_validator
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

ACCESS = json.loads(os.environ["BENCH_DATABASE"])
engine = create_async_engine(
    URL.create(
        "postgresql+asyncpg",
        username=ACCESS["user"],
        password=ACCESS["password"],
        database=ACCESS["database"],
        query={"host": ACCESS["host"], "port": ACCESS["port"]},
    ),
    pool_size=8,
)


class Base(DeclarativeBase):
    """The tables."""


class Job(Base):
    """A job."""

    __tablename__ = "job"
    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    seller_id: Mapped[int] = mapped_column(sa.BigInteger)
    status: Mapped[int] = mapped_column(sa.SmallInteger)
    total: Mapped[int]


class JobItem(Base):
    """An item of a job."""

    __tablename__ = "job_item"
    seller_id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    job_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    ordinal: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str]
    category_id: Mapped[str | None]
    auto_categorize: Mapped[bool]
    status: Mapped[int] = mapped_column(sa.SmallInteger)


class Item(BaseModel):
    """An item asked for."""

    sku: Annotated[str, Field(pattern=r"^[A-Za-z0-9]{10}$")]
    category_id: Annotated[str, Field(pattern=r"^[A-Z]{3}[0-9]+$")] | None = None
    auto_categorize: bool | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> Item:
        """Either a category or the wish to have one found."""
        if (self.category_id is None) == (not self.auto_categorize):
            raise ValueError("exactly one of category_id and auto_categorize")
        return self


class Body(BaseModel):
    """A job asked for."""

    items: Annotated[list[Item], Field(min_length=1, max_length=10_000)]
    listing_type_id: str | None = None


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Make the tables and the pool."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    app.state.pool = await asyncpg.create_pool(**{**ACCESS, "port": int(ACCESS["port"])}, min_size=2, max_size=8)
    yield


app = FastAPI(lifespan=lifespan)
COLUMNS = ["seller_id", "job_id", "ordinal", "sku", "category_id", "auto_categorize", "status"]


def _reply(job_id: uuid.UUID, count: int) -> dict[str, Any]:
    return {"job_id": str(job_id), "status": "queued", "accepted": count, "rejected": 0, "total_items": count}


@app.post("/sqlalchemy", status_code=202)
async def with_sqlalchemy(body: Body) -> dict[str, Any]:
    """Objects added to a session."""
    job_id = uuid.uuid4()
    async with AsyncSession(engine) as session, session.begin():
        session.add(Job(job_id=job_id, seller_id=7, status=0, total=len(body.items)))
        session.add_all(
            [
                JobItem(
                    seller_id=7,
                    job_id=job_id,
                    ordinal=ordinal,
                    sku=item.sku,
                    category_id=item.category_id,
                    auto_categorize=bool(item.auto_categorize),
                    status=0,
                )
                for ordinal, item in enumerate(body.items)
            ]
        )
    return _reply(job_id, len(body.items))


@app.post("/asyncpg", status_code=202)
async def with_asyncpg(body: Body) -> dict[str, Any]:
    """One COPY."""
    job_id = uuid.uuid4()
    async with app.state.pool.acquire() as connection, connection.transaction():
        await connection.execute("INSERT INTO job VALUES ($1, $2, 0, $3)", job_id, 7, len(body.items))
        await connection.copy_records_to_table(
            "job_item",
            columns=COLUMNS,
            records=[
                (7, job_id, ordinal, item.sku, item.category_id, bool(item.auto_categorize), 0)
                for ordinal, item in enumerate(body.items)
            ],
        )
    return _reply(job_id, len(body.items))


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))

    class Server(uvicorn.Server):
        """Says when it is ready."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """See uvicorn."""
            await super().startup(sockets)
            sys.stdout.write(f"ready http://127.0.0.1:{listener.getsockname()[1]}\n")
            sys.stdout.flush()

    Server(uvicorn.Config(app, http="httptools", loop="uvloop", access_log=False, log_level="warning")).run(
        sockets=[listener]
    )

"""What the parts cost by themselves: a bare FastAPI route, and one row by id behind one. No key, no tenant, no headers.

`python -m bench.baselines` serves on $BENCH_PORT: /bare, /asyncpg/{id}, /core/{id} and POST /insert.
"""

import contextlib
import os
from collections.abc import AsyncIterator

import asyncpg
import uvicorn
from fastapi import FastAPI, Response
from pydantic_core import to_json
from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import create_async_engine

from app.db.core.ids import new_id
from app.db.core.urls import async_url
from app.db.schema.tables import lease

_ROW = "SELECT * FROM lease WHERE id = $1"
_INSERT = "INSERT INTO bench_insert (id, body) VALUES ($1, $2)"
_JSON = "application/json"
_SEES_ALL = {"role": "gpulease_worker", "jit": "off"}


def build(database_url: str) -> FastAPI:
    """The application; its pools open with it."""
    engine = create_async_engine(
        async_url(database_url), pool_size=16, max_overflow=0, connect_args={"server_settings": _SEES_ALL}
    )
    statement = select(lease).where(lease.c.id == bindparam("id"))
    pool: asyncpg.Pool

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        nonlocal pool
        async with asyncpg.create_pool(database_url, min_size=16, max_size=16, server_settings=_SEES_ALL) as pool:
            yield
        await engine.dispose()

    app = FastAPI(lifespan=lifespan, openapi_url=None)

    @app.get("/bare")
    async def bare() -> Response:
        return Response(b'{"ok":true}', media_type=_JSON)

    @app.get("/asyncpg/{lease_id}")
    async def driver_row(lease_id: str) -> Response:
        async with pool.acquire() as connection:
            row = await connection.fetchrow(_ROW, lease_id)
        assert row is not None
        return Response(to_json(dict(row)), media_type=_JSON)

    @app.get("/core/{lease_id}")
    async def core_row(lease_id: str) -> Response:
        async with engine.connect() as connection:
            row = (await connection.execute(statement, {"id": lease_id})).mappings().one()
        return Response(to_json(dict(row)), media_type=_JSON)

    @app.post("/insert")
    async def insert() -> Response:
        async with pool.acquire() as connection:
            await connection.execute(_INSERT, new_id("bench"), "x" * 500)
        return Response(b'{"ok":true}', 201, media_type=_JSON)

    return app


def main() -> None:
    """Serve until SIGTERM, as the API is served."""
    app = build(os.environ["GPULEASE_DATABASE_URL"])
    port = int(os.environ["BENCH_PORT"])
    uvicorn.run(
        app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", access_log=False, log_level="warning"
    )


if __name__ == "__main__":
    main()

"""A PostgreSQL server that refuses every login with one SQLSTATE."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_SSL_REQUEST = 80877103


@asynccontextmanager
async def refusing_server(state: str) -> AsyncIterator[str]:
    """The URL of a server on loopback that answers each start-up message with an error of this SQLSTATE."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack("!i", await reader.readexactly(4))
                (code,) = struct.unpack("!i", (await reader.readexactly(length - 4))[:4])
                if code != _SSL_REQUEST:
                    break
                writer.write(b"N")
            fields = {"S": "FATAL", "V": "FATAL", "C": state, "M": "refused by a test"}
            body = b"".join(f"{key}{value}\0".encode() for key, value in fields.items()) + b"\0"
            writer.write(b"E" + struct.pack("!i", 4 + len(body)) + body)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield f"postgresql://nobody:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}/nothing"

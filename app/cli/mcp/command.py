"""`gpulease mcp`: starts the MCP server."""

from typing import Annotated

import typer

from app.cli import values
from app.cli.session import Session
from app.cli.up import require_extra

_LOOPBACK = "127.0.0.1"
_PORTS = range(1, 65536)


def address(text: str) -> tuple[str, int]:
    """`8765`, `:8765`, `HOST:8765` or `[::1]:8765` as host and port. The default host is this machine alone."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) in _PORTS):
        raise typer.BadParameter(f"{text!r}: write a port such as 8765, or HOST:PORT")
    return host.removeprefix("[").removesuffix("]") or _LOOPBACK, int(port)


def mcp(
    session: Session,
    *,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve streamable HTTP at /mcp instead. Each request carries its API key as bearer token.",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Label of every lease that the agent creates; repeatable."),
    ] = None,
) -> None:
    """Serve gpulease as tools for an agent, by the Model Context Protocol, on standard input and output.

    The server can do what its key can, and nothing more. Give an agent a key of its own with a budget and an end.
    """
    listen = None if http is None else address(http)
    labels = values.pairs(label or (), what="KEY=VALUE")
    require_extra("'gpulease[mcp]'", ("mcp",))
    import uvicorn  # noqa: PLC0415 - a package of the extra

    from app.cli.mcp.http import http_config  # noqa: PLC0415 - imports the extra's packages
    from app.cli.mcp.server import http_server, local_server  # noqa: PLC0415 - as above

    if listen is None:
        local_server(session.api(), labels).run("stdio")
        return
    host, port = listen
    server = http_server(session.address(), session.with_key, labels)
    session.note(f"MCP server for {session.address()}: listens at {host}, port {port}, path /mcp")
    uvicorn.Server(http_config(server, host, port)).run()

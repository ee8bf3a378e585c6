"""The MCP server in the process of a test."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.tools import base

from app.cli.mcp import server
from app.cli.mcp.server import NO_LABELS, Connect

if TYPE_CHECKING:
    from app.cli.client import Api

_describe: Any = base.func_metadata
_described: dict[str, Any] = {}


def _describe_once(tool: Any, **given: Any) -> Any:
    """Tools of the same name have the same arguments: pydantic's models of all ten take 50 ms."""
    if tool.__qualname__ not in _described:
        _described[tool.__qualname__] = _describe(tool, **given)
    return _described[tool.__qualname__]


def local_server(api: "Api", labels: Mapping[str, str] = NO_LABELS) -> MCPServer:
    """As `app.cli.mcp.server` makes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "func_metadata", _describe_once)
        return server.local_server(api, labels)


def http_server(url: str, connect: Connect, labels: Mapping[str, str] = NO_LABELS) -> MCPServer:
    """As `app.cli.mcp.server` makes it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "func_metadata", _describe_once)
        return server.http_server(url, connect, labels)

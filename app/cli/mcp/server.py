"""The MCP server: tools with their annotations, over standard input and output or over HTTP."""

import logging
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial, wraps
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, Tool, ToolAnnotations
from pydantic import AnyHttpUrl

from app.cli.errors import ApiError, CliError, NotConfiguredError
from app.cli.mcp.advice import explained
from app.cli.mcp.arguments import flat
from app.cli.mcp.catalogue_tools import CatalogueTools
from app.cli.mcp.group_tools import GroupTools
from app.cli.mcp.tools import Tools

if TYPE_CHECKING:
    from app.cli.client import Api

INSTRUCTIONS = """\
gpulease leases VMs with GPUs at AWS, Google Cloud and Azure. Every lease costs money until it ends.
size finds the GPUs that fit a language model; models and offerings list what can be leased.
Use plan or quote before create_lease. Give the shortest ttl_seconds that is enough, and a max_cost.
Release every lease with release_lease as soon as you no longer need it. Extend it before ends_at if you need it longer.
For several VMs that must start together, use plan_group and create_group, and release_group as soon as possible.
A lease ends by itself at ends_at. Each answer has the remaining budget: stay below it.
"""

_READ = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_ADD = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_END = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

_UNAUTHENTICATED = 401
_DEFECT = (
    "{0} failed by a defect of this server ({1}). The API may have carried the call out: look with list_leases and "
    "list_groups before you repeat it."
)
logger = logging.getLogger(__name__)
NO_LABELS: Mapping[str, str] = MappingProxyType({})

Connect = Callable[[str], "Api"]
"Opens the API with a key. The caller closes it."


def local_server(api: "Api", labels: Mapping[str, str] = NO_LABELS) -> MCPServer:
    """A server for one client, which acts with the key of `api`. Its leases get these labels."""

    @contextmanager
    def connect() -> "Iterator[Api]":
        yield api

    return _with_tools(_server(), connect, labels)


def http_server(url: str, connect: Connect, labels: Mapping[str, str] = NO_LABELS) -> MCPServer:
    """A server that holds no key. Each HTTP request acts with the API key that it carries as bearer token."""

    def of_request() -> "AbstractContextManager[Api]":
        token = get_access_token()
        assert token is not None, "the transport refuses requests without a token"
        return connect(token.token)

    auth = AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None)
    return _with_tools(_server(auth=auth, token_verifier=KeyVerifier(connect)), of_request, labels)


class StrictServer(MCPServer):
    """Refuses unknown arguments. A misspelled `max_cost` must not become a lease without a cap."""

    async def list_tools(self) -> list[Tool]:
        """The tools. Their schemas state that there are no further arguments."""
        tools = await super().list_tools()
        for tool in tools:
            tool.input_schema = {**_untitled(tool.input_schema), "additionalProperties": False}
            tool.output_schema = _untitled(tool.output_schema)
        return tools

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """As the base class. Raises ToolError for an argument that the tool does not have."""
        known = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        unknown = sorted(set(arguments) - set(known.get(name, arguments)))
        if unknown:
            raise ToolError(f"{name} has no argument {unknown[0]}. It has: {', '.join(known[name])}.")
        return await super().call_tool(name, arguments, context)


def _untitled(schema: Any) -> Any:
    """The schema without titles: they repeat the names, and agents pay for each word."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _untitled(value) for name, value in schema.items() if not (name == "title" and isinstance(value, str))
    }


class KeyVerifier(TokenVerifier):
    """Asks the API whether a bearer token is one of its keys."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def verify_token(self, token: str) -> AccessToken | None:
        """None for a key that the API does not accept. While the API is unreachable, the tools report that."""
        return await anyio.to_thread.run_sync(partial(self._verify, token))

    def _verify(self, token: str) -> AccessToken | None:
        try:
            with self._connect(token) as api:
                client_id = str(api.get("/v1/me")["key_id"])
        except NotConfiguredError:  # text that no key can be
            return None
        except CliError as error:
            if isinstance(error, ApiError) and error.status == _UNAUTHENTICATED:
                return None
            client_id = ""
        return AccessToken(token=token, client_id=client_id, scopes=[])


def _server(**auth: Any) -> MCPServer:
    return StrictServer(
        "gpulease",
        title="gpulease",
        instructions=INSTRUCTIONS,
        version=version("gpulease"),
        log_level="WARNING",
        **auth,
    )


def _with_tools(
    server: MCPServer, connect: Callable[[], "AbstractContextManager[Api]"], labels: Mapping[str, str]
) -> MCPServer:
    tools, groups, catalogue = Tools(connect, labels), GroupTools(connect, labels), CatalogueTools(connect, labels)
    read = (
        *(catalogue.models, catalogue.offerings, catalogue.size, catalogue.explain),
        *(tools.plan, tools.quote, tools.list_leases, tools.show_lease, tools.list_volumes, tools.costs, tools.budgets),
        *(groups.plan_group, groups.list_groups, groups.show_group),
    )
    kinds = (
        (_READ, read),
        (_ADD, (tools.create_lease, tools.extend_lease, groups.create_group)),
        (_END, (tools.release_lease, groups.release_group)),
    )
    for annotations, functions in kinds:
        for function in functions:
            title = function.__name__.replace("_", " ").capitalize()
            server.add_tool(_guarded(flat(function)), title=title, annotations=annotations)
    return server


def _guarded(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool, with errors of the API as tool errors, which the model reads.

    This is the outermost place that knows the tool. A defect is one line of the log and a sentence for the model, because
    hosts show both to people.
    """

    @wraps(tool)
    def run(**values: Any) -> Any:
        try:
            return tool(**values)
        except CliError as error:
            raise ToolError(explained(error)) from None
        except Exception as error:  # noqa: BLE001 - the outermost place of a call
            where = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("%s: %s in %s line %s", tool.__name__, type(error).__name__, where.name, where.lineno)  # noqa: TRY400 - hosts show the log to people
            raise ToolError(_DEFECT.format(tool.__name__, type(error).__name__)) from None

    return run

"""The agent: creates the most expensive leases that its key's budget allows, over MCP, until somebody kills it.

Its environment names the API and the key. Each tool call becomes a line of JSON on standard output.
"""

import asyncio
import itertools
import json
import os
import sys
import uuid
from collections.abc import Mapping
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

WISHES: tuple[Mapping[str, Any], ...] = (
    {"instance_types": ["p4d.24xlarge"], "market": "on_demand"},
    {"instance_types": ["g5.12xlarge"], "market": "on_demand"},
    {"instance_types": ["g4dn.xlarge"], "market": "on_demand"},
)
"""The most expensive first: the cheaper ones fill what is left of the budget."""

_PAUSE = 0.2


async def main(ttl_seconds: int) -> None:
    """Never returns. Every third lease is extended to twice its term."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "app.cli", "mcp"], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        made = itertools.count(1)
        while True:
            lease = await _most_expensive(client, ttl_seconds)
            if lease is None:
                await asyncio.sleep(_PAUSE)
            elif next(made) % 3 == 0:
                await _call(client, "extend_lease", {"lease": lease, "ends_in_seconds": 2 * ttl_seconds})


async def _most_expensive(client: Client, ttl_seconds: int) -> str | None:
    """The id of a new lease. None: the budget has room for none of the wishes."""
    name = f"agent-{uuid.uuid4().hex[:8]}"
    for wish in WISHES:
        arguments = {**wish, "ttl_seconds": ttl_seconds, "name": name, "ssh_public_keys": []}
        answer = await _call(client, "create_lease", arguments)
        if answer is not None:
            return str(answer["lease"]["id"])
    return None


async def _call(client: Client, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer. None: the tool refused the call."""
    answer = await client.call_tool(tool, dict(arguments))
    content: dict[str, Any] = answer.structured_content or {}
    text = "".join(getattr(part, "text", "") for part in answer.content)
    remaining = (content.get("remaining_budget") or {}).get("available")
    line = {"tool": tool, "error": text if answer.is_error else None, "remaining": remaining}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return None if answer.is_error else content


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

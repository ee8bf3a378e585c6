"""The agent: creates the most expensive leases that its key's budget allows, over MCP, until somebody kills it.

Its environment names the API and the key. Each tool call becomes a line of JSON on standard output.
"""

import asyncio
import itertools
import json
import os
import sys
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
    """Never returns."""
    server = StdioServerParameters(command=sys.executable, args=["-m", "app.cli", "mcp"], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        for number in itertools.count():
            for wish in WISHES:
                arguments = {**wish, "ttl_seconds": ttl_seconds, "name": f"agent-{number}", "ssh_public_keys": []}
                if await _created(client, arguments):
                    break
            else:
                await asyncio.sleep(_PAUSE)
            if number % 10 == 9:
                await _call(
                    client, "extend_lease", {"lease": f"agent-{number - 5}", "ends_in_seconds": 2 * ttl_seconds}
                )


async def _created(client: Client, arguments: Mapping[str, Any]) -> bool:
    return not (await _call(client, "create_lease", arguments))["error"]


async def _call(client: Client, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    answer = await client.call_tool(tool, dict(arguments))
    text = "".join(getattr(part, "text", "") for part in answer.content)
    remaining = ((answer.structured_content or {}).get("remaining_budget") or {}).get("available")
    line = {"tool": tool, "error": text if answer.is_error else None, "remaining": remaining}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return line


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))

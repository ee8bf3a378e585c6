"""The TypeScript client: checked strictly, driven through the whole life of a lease, open to what it does not know."""

from pathlib import Path

from tests.api.clients.conftest import live_a_lease, said
from tests.api.clients.test_python import TELLS
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running
from tools.clients import NODE_MODULES, node

GROWTH = """
import type { components } from "./schema.d.ts";
declare const lease: components["schemas"]["Lease"];
export const known: components["schemas"]["Lease"]["state"] = "active";
lease.state = "paused";
lease.placement!.market = "auction";
export const wish: components["schemas"]["NewLease"] = { ttl_seconds: 60, market: "spot_first" };
// @ts-expect-error what is asked for must be known
export const wrong: components["schemas"]["NewLease"] = { ttl_seconds: 60, market: "auction" };
"""
# the libraries' own declarations are theirs to check; without the browser's, which Node does not need, it takes a third
OPTIONS = (
    "--strict --noUncheckedIndexedAccess --target es2022 --lib es2022 --module nodenext --types node --skipLibCheck"
)


async def test_it_passes_tsc_strict_and_lives_a_lease_from_the_wish_to_the_end(
    typescript_client: Path, fleet: Fleet, api: Running
) -> None:
    (typescript_client / "growth.ts").write_text(GROWTH)
    compiler = str(NODE_MODULES / "typescript" / "bin" / "tsc")
    # as a source of ours, which is checked whatever the options say
    (typescript_client / "schema_checked.ts").write_bytes((typescript_client / "schema.d.ts").read_bytes())
    sources = ["program.ts", "growth.ts", "schema_checked.ts"]
    await said([node(), compiler, *OPTIONS.split(), "--outDir", "built", *sources], typescript_client)
    told = await live_a_lease([node(), "built/program.js"], typescript_client, fleet, api)
    assert TELLS.fullmatch(told), told

"""The TypeScript client: checked strictly, installed, driven through the life of a lease, open to unknown values."""

import json
import shutil
from pathlib import Path

from tests.api.clients.conftest import live_a_lease, run
from tests.api.clients.test_python import OUTPUT
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running
from tools.clients import TYPESCRIPT_SOURCES, TYPESCRIPT_TOOLS, node
from tools.installed_clients import compile_typescript, programs

GROWTH = """
import type { components, ProblemCode } from "gpulease-client";
declare const lease: components["schemas"]["Lease"];
export const known: components["schemas"]["Lease"]["state"] = "active";
export const code: ProblemCode = "quota_exceeded";
lease.state = "paused";
lease.placement!.market = "auction";
export const request: components["schemas"]["NewLease"] = { ttl_seconds: 60, market: "spot_first" };
// @ts-expect-error values of a request must be known
export const wrong: components["schemas"]["NewLease"] = { ttl_seconds: 60, market: "auction" };
"""


async def test_it_passes_tsc_strict_and_lives_a_lease_from_the_request_to_the_end(
    typescript_project: Path, fleet: Fleet, api: Running
) -> None:
    (typescript_project / "growth.ts").write_text(GROWTH)
    (typescript_project / "program.ts").write_text(programs("ts")[0])
    compile_typescript(typescript_project, "program.ts", "growth.ts")
    output = await live_a_lease([node(), "program.js"], typescript_project, fleet, api)
    assert OUTPUT.fullmatch(output), output


def test_it_is_checked_with_the_version_that_it_depends_on() -> None:
    (package, checked) = (
        json.loads((folder / "package.json").read_text()) for folder in (TYPESCRIPT_SOURCES, TYPESCRIPT_TOOLS)
    )
    assert package["dependencies"].items() <= checked["devDependencies"].items()


async def test_its_layer_retries_waits_and_streams(typescript_project: Path) -> None:
    shutil.copy(Path(__file__).with_name("layer.test.mjs"), typescript_project)
    output = await run([node(), "--expose-gc", "--test", "--test-reporter=tap", "layer.test.mjs"], typescript_project)
    assert "# fail 0" in output

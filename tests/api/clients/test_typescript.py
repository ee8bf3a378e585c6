"""The TypeScript client: checked strictly, installed, driven through the life of a lease, open to unknown values."""

import json
import shutil
from pathlib import Path

from tests.api.clients.conftest import live_a_lease, run
from tests.api.clients.test_python import OUTPUT
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running
from tools.clients import TYPESCRIPT_SOURCES, TYPESCRIPT_TOOLS, node


async def test_it_passes_tsc_strict_and_lives_a_lease_from_the_request_to_the_end(
    typescript_project: Path, fleet: Fleet, api: Running
) -> None:
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

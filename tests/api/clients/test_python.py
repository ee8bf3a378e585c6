"""The Python client: checked strictly, installed, driven through the whole life of a lease, open to unknown values."""

import re
import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

from tests.api.clients.conftest import live_a_lease
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_event_stream import Running
from tests.harness.databases import ROOT
from tools.installed_clients import programs

OUTPUT = re.compile(
    r"queued \nactive \n"
    r"ssh ubuntu@198\.51\.100\.7\n"
    r"until \S+.*\n"
    r"1 launched g5\.xlarge 1\.006\n"
    r"releasing .*\nreleased.*\n"
    r"USD 1\.\d+\n"
    r"1 lease\.queued\n2 lease\.active\n3 lease\.extended\n4 lease\.releasing\n(?:5 lease\.released\n)?"
)
"""What the first programs of docs/clients.md write in both languages."""


@pytest.mark.timeout(300)
def test_it_and_the_programs_of_the_page_pass_mypy_strict(python_client: Path) -> None:
    for n, text in enumerate(programs("python")):
        (python_client / f"program_{n}.py").write_text(text, encoding="utf-8")
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "clients")]
    argv = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "", *cache]
    sources = ["gpulease_client", *(path.name for path in python_client.glob("program_*.py"))]
    done = subprocess.run([*argv, *sources], cwd=python_client, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_can_be_installed_beside_the_server(python_wheel: Path) -> None:
    server = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert python_wheel.name.startswith(f"gpulease_client-{server['project']['version']}-")
    with zipfile.ZipFile(python_wheel) as wheel:
        folders = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
    assert folders == {"gpulease_client"}
    assert not any(
        fnmatch("gpulease_client", pattern) for pattern in server["tool"]["setuptools"]["packages"]["find"]["include"]
    )
    assert server["project"]["name"] != "gpulease-client"


async def test_it_lives_a_lease_from_the_request_to_the_end(
    installed_python: list[str], tmp_path: Path, fleet: Fleet, api: Running
) -> None:
    first, twin, others = programs("python")
    output = await live_a_lease([*installed_python, "-c", first], tmp_path, fleet, api)
    assert OUTPUT.fullmatch(output), output
    output = await live_a_lease([*installed_python, "-c", twin], tmp_path, fleet, api)
    assert output == "active g5.xlarge\n"
    assert fleet.run("SELECT count(*) FROM lease WHERE desired = 'run'")[0]["count"] == 0
    output = await live_a_lease([*installed_python, "-c", others], tmp_path, fleet, api)
    assert output == "admin\n"


async def test_values_that_it_does_not_know_are_handed_on(
    gpulease_client: ModuleType, fleet: Fleet, alice: Caller
) -> None:
    models = gpulease_client.models
    made = await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "market": "spot_first", "ttl_seconds": 3600})
    fleet.activate(made.json()["id"])
    lease = (await alice.get(f"/v1/leases/{made.json()['id']}")).json()
    (attempt,) = (await alice.get(f"/v1/leases/{lease['id']}/attempts")).json()["items"]

    known = models.Lease.from_dict(lease)
    assert known.state is models.LeaseState.ACTIVE
    assert known.placement.market is models.Market.ON_DEMAND

    lease |= {"state": "paused", "desired": "pause", "colour": "blue"}
    lease["reason"] = {"code": "moon_phase", "message": "full", "origin": "moon", "retryable": True}
    lease["placement"]["market"] = lease["request"]["market"] = "auction"
    newer = models.Lease.from_dict(lease)
    assert (newer.state, newer.desired, newer.reason.code, newer.reason.origin) == (
        "paused",
        "pause",
        "moon_phase",
        "moon",
    )
    assert (newer.placement.market, newer.request.market) == ("auction", "auction")
    assert newer.additional_properties == {"colour": "blue"}

    newer_attempt = models.Attempt.from_dict({**attempt, "outcome": "cloned", "state": "cloned"})
    assert (newer_attempt.outcome, newer_attempt.state) == ("cloned", "cloned")

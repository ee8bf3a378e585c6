"""A change survives a lost answer at every door: one lease, or an error that names its key. One table for all doors."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp import Client as Agent
from typer.testing import CliRunner

from app.cli import client, repeats
from app.cli.client import Api
from app.cli.endpoint import Endpoint
from app.cli.errors import CliError
from app.cli.main import app
from tests.api.clients.conftest import run
from tests.api.clients.lossy import FAULTS, NOT_REPEATED, Case, LossyApi, lossy_api
from tests.cli.mcp_server import local_server
from tests.harness.databases import ROOT
from tools.clients import node

TRIES = 5
"Of each door."
SSH_KEY = "/v1/ssh-keys/sshkey_01jz0000000000000000000002"


@pytest.fixture(scope="module")
def lossy() -> Iterator[LossyApi]:
    with lossy_api() as api:
        yield api


def _patience(fault: str) -> float:
    """Seconds for a try."""
    return 1.0 if fault == "slow" else 20.0


def _all(fault: str) -> int:
    """So many faults that no try gets an answer."""
    return 1 if fault in NOT_REPEATED else TRIES


def _is_one_lease(case: Case) -> None:
    assert len(set(case.keys)) == 1, case.keys
    assert len(case.leases) == 1


def _is_one_lease_at_most(case: Case, fault: str) -> None:
    assert len(case.keys) == _all(fault)
    assert len(set(case.keys)) == 1, case.keys
    assert len(case.leases) == (fault != "before")


def _command(lossy: LossyApi, monkeypatch: pytest.MonkeyPatch, case: str, fault: str, *more: str) -> Any:
    class Hasty(Api):
        def __init__(self, endpoint: Endpoint, **given: Any) -> None:
            super().__init__(endpoint, **given, pause=lambda _: None, timeout=_patience(fault))

    monkeypatch.setattr(client, "Api", Hasty)
    words = ["lease", "create", "--gpu", "T4:1", "--ttl", "1h", "--yes", "--no-ssh-key", "--json"]
    return CliRunner().invoke(app, ["--url", lossy.url, "--key", case, *words, *more])


@pytest.mark.parametrize("fault", FAULTS)
def test_the_command_line(lossy: LossyApi, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    once = f"gpl_cli-{fault}-1"
    if fault not in NOT_REPEATED:
        made = _command(lossy, monkeypatch, once, fault)
        assert (made.exit_code, json.loads(made.stdout)["state"]) == (0, "queued"), made.output
        _is_one_lease(lossy.cases[once])
    never = f"gpl_clinever-{fault}-{_all(fault)}"
    failed = _command(lossy, monkeypatch, never, fault)
    assert failed.exit_code in {1, 3}, failed.output
    assert "the lease may exist and may be billed" in failed.stderr
    key = re.search(r"--idempotency-key (\S+)", failed.stderr)
    assert key is not None
    assert key[1] == lossy.cases[never].keys[0]
    _is_one_lease_at_most(lossy.cases[never], fault)
    assert _command(lossy, monkeypatch, never, fault, "--idempotency-key", key[1]).exit_code == 0
    _is_one_lease(lossy.cases[never])


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_tools_for_agents(lossy: LossyApi, fault: str) -> None:
    once, never = f"gpl_mcp-{fault}-1", f"gpl_mcpnever-{fault}-{_all(fault)}"
    wish = {"ttl_seconds": 3600, "gpu_model": "T4"}

    async def create(case: str) -> Any:
        endpoint = Endpoint(lossy.url, case)
        with Api(endpoint, note=lambda _: None, pause=lambda _: None, timeout=_patience(fault)) as api:
            async with Agent(local_server(api), mode="legacy") as agent:
                return await agent.call_tool("create_lease", wish)

    if fault not in NOT_REPEATED:
        assert not (await create(once)).is_error
        _is_one_lease(lossy.cases[once])
    failed = await create(never)
    assert failed.is_error
    assert "a lease or group may exist: list_leases and list_groups show it" in failed.content[0].text
    assert "a repeated create_lease makes no second lease" in failed.content[0].text
    (key,) = re.findall(r"POST /v1/leases was sent with the idempotency key (\S+)\.", failed.content[0].text)
    assert {key} == set(lossy.cases[never].keys)
    _is_one_lease_at_most(lossy.cases[never], fault)
    assert not (await create(never)).is_error
    _is_one_lease(lossy.cases[never])


@pytest.mark.parametrize("fault", FAULTS)
def test_the_python_client(lossy: LossyApi, fault: str, gpulease_client: ModuleType) -> None:
    retries = gpulease_client.Retries(first_pause=0.0)

    def create(case: str, **more: Any) -> Any:
        with gpulease_client.Client(lossy.url, case, retries=retries, timeout=_patience(fault)) as connected:
            return connected.leases.create(gpu={"model": "T4"}, ttl_seconds=3600, **more)

    once, never = f"gpl_py-{fault}-1", f"gpl_pynever-{fault}-{_all(fault)}"
    if fault not in NOT_REPEATED:
        assert create(once).state == "queued"
        _is_one_lease(lossy.cases[once])
    with pytest.raises(gpulease_client.GpuleaseError, match="makes no second resource") as failed:
        create(never)
    assert failed.value.idempotency_key == lossy.cases[never].keys[0]
    _is_one_lease_at_most(lossy.cases[never], fault)
    create(never, idempotency_key=failed.value.idempotency_key)
    _is_one_lease(lossy.cases[never])


async def test_the_typescript_client(lossy: LossyApi, typescript_project: Path) -> None:
    shutil.copy(Path(__file__).with_name("lost.mjs"), typescript_project)
    given = [lossy.url, json.dumps(list(FAULTS)), json.dumps(sorted(NOT_REPEATED))]
    outcomes = json.loads(await run([node(), "--expose-gc", "lost.mjs", *given], typescript_project))
    assert "no answer within 0.3 s" in outcomes["late"]["message"]
    for fault in FAULTS:
        created = outcomes["created"][fault]
        if fault not in NOT_REPEATED:
            assert "done" in created["once"], (fault, created)
            _is_one_lease(lossy.cases[f"gpl_ts-{fault}-1"])
        case = lossy.cases[f"gpl_tsnever-{fault}-{_all(fault)}"]
        assert created["never"]["key"] == case.keys[0], (fault, created)
        assert "makes no second resource" in created["never"]["message"]
        assert "done" in created["again"], (fault, created)
        assert len(case.keys) == _all(fault) + 1
        _is_one_lease(case)
        assert ("done" in outcomes["deleted"][fault]) == (fault not in NOT_REPEATED), (fault, outcomes["deleted"])


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - NOT_REPEATED))
def test_a_repeated_delete_that_finds_nothing_is_done(lossy: LossyApi, fault: str, gpulease_client: ModuleType) -> None:
    quiet: Any = {"note": lambda _: None, "pause": lambda _: None, "timeout": _patience(fault)}
    with Api(Endpoint(lossy.url, f"gpl_clidelete-{fault}-1"), **quiet) as api:
        assert api.delete(SSH_KEY) == {}
        with pytest.raises(CliError):  # a delete of what is not there, without a lost answer
            api.delete(SSH_KEY)
    retries = gpulease_client.Retries(first_pause=0.0)
    case = f"gpl_pydelete-{fault}-1"
    with gpulease_client.Client(lossy.url, case, retries=retries, timeout=_patience(fault)) as connected:
        connected.ssh_keys.delete(SSH_KEY.rpartition("/")[2])
        with pytest.raises(gpulease_client.problems.NotFound):
            connected.ssh_keys.delete(SSH_KEY.rpartition("/")[2])


def test_collections_that_keep_what_a_delete_ends_are_those_whose_delete_answers_with_it() -> None:
    paths = json.loads((ROOT / "openapi.json").read_text(encoding="utf-8"))["paths"]
    answering = {
        path for path, methods in paths.items() if "delete" in methods and "204" not in methods["delete"]["responses"]
    }
    assert {path.split("/")[2] for path in answering} == repeats.KEPT

"""The page about test mode does what it says: its commands, its example and its workflow."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.cloud import Cloud
from tests.e2e.people import Tenant
from tests.e2e.stack import PATIENCE, Stack
from tests.harness.databases import ROOT
from tests.harness.made_once import python_client

PAGE = (ROOT / "docs" / "howto" / "test-mode.md").read_text(encoding="utf-8")
SEVERAL_LEASES = 4 * PATIENCE


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def environment(tenant: Tenant, stack: Stack, client: Path) -> dict[str, str]:
    """As `gpulease up` gives it to the command."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("GPULEASE_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(client),
        "GPULEASE_URL": stack.credentials.api_url,
        "GPULEASE_KEY": tenant.key,
        "GPULEASE_CLOUDSIM_URL": stack.credentials.cloudsim_url,
    }


def run(argv: list[str], folder: Path, given: dict[str, str]) -> str:
    done = subprocess.run(
        argv, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=SEVERAL_LEASES
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(SEVERAL_LEASES + 60)
def test_the_page_works_as_it_stands(
    tenant: Tenant, stack: Stack, cloud: Cloud, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start, controls = blocks("sh")
    # tests/local/test_stack.py starts a stack for a command; here the command runs against the stack of these tests
    command = shlex.split(start)
    command = command[command.index("--") + 1 :]
    project = tmp_path / "project"
    project.mkdir()
    (project / "test_training.py").write_text(blocks("python")[0])
    given = environment(tenant, stack, python_client(tmp_path_factory))
    run(["/bin/bash", "-euo", "pipefail", "-c", controls], project, given)
    assert "4 passed" in run(command, project, given)
    ended = [tenant.wait(lease["id"], "released", "failed") for lease in tenant.leases()]
    assert sorted(lease["state"] for lease in ended) == ["failed", "released", "released", "released"]


def test_the_workflow_runs_the_same_command() -> None:
    (workflow,) = map(yaml.safe_load, blocks("yaml"))
    (job,) = workflow["jobs"].values()
    assert blocks("sh")[0].strip() in [step.get("run") for step in job["steps"]]

"""The quick start does what it says, command by command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import asyncssh

from tests.e2e.cloud import Cloud
from tests.e2e.people import Tenant
from tests.e2e.stack import PATIENCE, Stack
from tests.harness.databases import ROOT

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    """What the page tells to type, in order."""
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


def test_the_readme_shows_commands_of_the_quick_start() -> None:
    start, lease = blocks("README.md")[:2]
    told = blocks("docs/quickstart.md")
    assert start == told[0] == 'make up ARGS="--profile fast"\n'
    assert set(lease.splitlines()) <= set("".join(told).splitlines())


def _give_login(folder: Path, tenant: Tenant) -> None:
    """A default key, as a person accepts one at the terminal, and an ssh that offers only what it gets with -i."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    (folder / ".ssh").mkdir()
    key.write_private_key(str(folder / ".ssh" / "id_team"))
    body = {"name": "laptop", "public_key": key.export_public_key().decode().strip(), "default": True}
    tenant.http.post("/v1/ssh-keys", json=body).raise_for_status()
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT}/tests/e2e/ssh_client.py "$@"\n')
    program.chmod(0o755)


def test_the_commands_work_as_they_stand(tenant: Tenant, stack: Stack, cloud: Cloud, tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / ".gpulease").mkdir()
    _give_login(tmp_path, tenant)
    access = {"api_url": stack.credentials.api_url, "tenant_key": tenant.key}
    (tmp_path / ".gpulease" / "credentials.json").write_text(json.dumps(access))
    # the stack of these tests was started as the first block says, on a port of its own
    commands = "".join(blocks("docs/quickstart.md")[1:]).replace("http://127.0.0.1:8000", access["api_url"])
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("GPULEASE_")},
            "HOME": str(tmp_path),
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        input="nvidia-smi -L\nexit\n",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(
        word in done.stdout
        for word in ("g5.xlarge", "active", "SIMULATED VM", "GPU 0: A10G", "lease.extended", "released")
    ), done.stdout

    first, second = sorted(tenant.leases(), key=lambda lease: str(lease["created_at"]))
    assert (first["name"], first["state"], second["name"]) == ("first", "released", "second")
    assert [vm["alive"] for vm in cloud.vms_of(first["id"])] == [False]
    assert tenant.wait(second["id"], "released")["reason"]["code"] == "released_by_user"

"""How the agent comes into a VM: in the user data, from the API, or not at all; before the tenant's script."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.agent import program
from app.services.leases.requests import LARGEST_STARTUP_SCRIPT
from cloudsim.user_data import first_boot
from tests.workers.providers.aws.test_userdata import noise
from tests.workers.providers.samples import KEY, spec
from workers.providers.aws import userdata as aws
from workers.providers.azure import userdata as azure
from workers.providers.common import agent, cloud_init
from workers.providers.errors import InvalidSpec
from workers.providers.gcp import userdata as gcp
from workers.providers.types import AgentConfig, HostKeyReport, LaunchSpec

CONFIG = AgentConfig(token="0123456789abcdef" * 4, url="https://gpu.example.org", benchmark=True, sample_seconds=30)
REPORT = HostKeyReport(url="https://gpu.example.org/v1/host-keys", token="f" * 64)
START = ["systemctl", "start", agent.UNIT]


def cloud_config(packed: str) -> Any:
    return first_boot(packed).config


def cloud_init_files(packed: str) -> dict[str, str]:
    return {file["path"]: file["content"] for file in cloud_config(packed).get("write_files", ())}


def gcp_files(script: str) -> dict[str, str]:
    found = re.findall(r"^put \d+ (\S+) <<'END'\n(.*?)^END$", script, re.DOTALL | re.MULTILINE)
    return {path: base64.b64decode(text).decode() for path, text in found}


def files_at(provider: str, wanted: LaunchSpec) -> dict[str, str]:
    if provider == "gcp":
        return gcp_files(gcp.script(wanted))
    return cloud_init_files((aws if provider == "aws" else azure).packed(wanted))


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
def test_a_vm_gets_program_configuration_and_unit(provider: str) -> None:
    files = files_at(provider, spec(agent=CONFIG, host_keys=REPORT))
    assert files[agent.PROGRAM] == program.short(benchmark=True)
    assert json.loads(files[agent.CONFIG]) == {
        "url": CONFIG.url,
        "token": CONFIG.token,
        "serial": True,
        "benchmark": True,
        "interval": 30,
    }
    assert f"ExecStart={agent.PROGRAM} run" in files[f"/etc/systemd/system/{agent.UNIT}"]


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
def test_without_an_agent_nothing_of_it_is_in_the_vm(provider: str) -> None:
    assert [path for path in files_at(provider, spec(host_keys=REPORT)) if "agent" in path] == []


def test_only_root_may_read_program_and_token() -> None:
    modes = {file["path"]: file["permissions"] for file in agent.files(CONFIG, agent.Delivery.EMBEDDED)}
    assert (modes[agent.PROGRAM], modes[agent.CONFIG]) == ("0700", "0600")


def test_the_proof_comes_after_our_other_commands_and_before_the_tenants_script() -> None:
    wanted = spec(agent=CONFIG, host_keys=REPORT)
    for packed in (aws.packed(wanted), azure.packed(wanted)):
        commands = cloud_config(packed)["runcmd"]
        assert commands[-2:] == [START, [cloud_init.STARTUP_SCRIPT]]
        assert "--no-block" not in START, "the script waits for the proof"
    lines = gcp.script(wanted).splitlines()
    start, ready = lines.index(" ".join(START)), next(i for i, line in enumerate(lines) if "guest-attributes" in line)
    assert start < ready < lines.index('exec "$state/startup-script"')


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
def test_the_same_spec_gives_the_same_bytes(provider: str) -> None:
    wanted = spec(agent=CONFIG)
    assert files_at(provider, wanted) == files_at(provider, replace(wanted))
    assert aws.packed(wanted) == aws.packed(replace(wanted))


def test_a_long_script_leaves_room_for_a_loader_only() -> None:
    wanted = spec(
        agent=CONFIG, host_keys=REPORT, startup_script=noise(LARGEST_STARTUP_SCRIPT), ssh_public_keys=(KEY,) * 20
    )
    packed = aws.packed(wanted)
    assert len(aws.unpacked(packed)) <= aws.LIMIT
    loader = cloud_init_files(packed)[agent.PROGRAM]
    assert program.digest() in loader
    assert f"{CONFIG.url}{agent.PATH}" in loader
    assert START in cloud_config(packed)["runcmd"]
    assert cloud_init_files(azure.packed(wanted))[agent.PROGRAM] == program.short(benchmark=True)


def test_without_a_url_a_long_script_leaves_no_room_for_an_agent() -> None:
    silent = replace(CONFIG, url=None)
    wanted = spec(agent=silent, startup_script=noise(LARGEST_STARTUP_SCRIPT))
    assert agent.PROGRAM not in cloud_init_files(aws.packed(wanted))
    assert agent.PROGRAM in cloud_init_files(aws.packed(spec(agent=silent)))


def test_a_script_of_usual_length_fits_beside_the_program() -> None:
    """EC2's 16 KiB: at least 4 KiB, compressed, are left for the tenant's script and keys."""
    size = len(aws.unpacked(aws.packed(spec(agent=replace(CONFIG, benchmark=False), host_keys=REPORT))))
    assert aws.LIMIT - size >= 4 * 1024


def test_a_script_that_is_too_long_is_refused_with_and_without_an_agent() -> None:
    for config in (None, CONFIG):
        with pytest.raises(InvalidSpec, match="16384"):
            aws.packed(spec(agent=config, startup_script=noise(24 * 1024)))


@contextmanager
def serving(text: bytes, statuses: list[int]) -> Iterator[str]:
    class Program(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses.pop(0) if statuses[1:] and self.path == agent.PATH else statuses[0])
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object, **_named: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Program) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def load(url: str, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs the loader, with the folder in place of the machine's."""
    path = folder / "gpulease-agent"
    text = agent.loader(replace(CONFIG, url=url)).replace(agent.PROGRAM, str(path))
    path.write_text(text.replace("#!/usr/bin/python3", f"#!{sys.executable}"))
    path.chmod(0o700)
    return subprocess.run([str(path), *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_the_loader_becomes_the_program_that_was_promised(tmp_path: Path) -> None:
    with serving(program.source(), [503, 200]) as url:
        done = load(url, tmp_path, "help")
    assert (done.returncode, "What leaves the VM" in done.stderr) == (2, True)
    installed = tmp_path / "gpulease-agent"
    assert installed.read_bytes() == program.source()
    assert os.access(installed, os.X_OK)
    assert installed.stat().st_mode & 0o077 == 0


def test_the_loader_runs_nothing_else(tmp_path: Path) -> None:
    evil = b"#!/bin/sh\ntouch " + str(tmp_path / "ran").encode() + b"\n"
    with serving(evil, [200]) as url:
        done = load(url, tmp_path)
    assert done.returncode == 1
    assert "could not be fetched" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["gpulease-agent"]
    assert hashlib.sha256(evil).hexdigest() != program.digest()

"""The tokens of a VM in a batch: the program of the user data, run against a metadata service, and as cloudsim does it."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.domain.tokens import slot_token
from cloudsim.user_data import files
from cloudsim.world import Vm
from tests.workers.providers.samples import spec
from workers.providers.aws import userdata as aws
from workers.providers.common import slot_tokens
from workers.providers.gcp import userdata as gcp
from workers.providers.types import AgentConfig, HostKeyReport, LaunchSpec

SECRET = "5a" * 32
NAME = "gpulease-" + "0123456789" * 4
SLOTS = {"aws": "17", "gcp": NAME}
BASES = {"aws": "http://169.254.169.254", "gcp": "http://metadata.google.internal"}
HOST_KEYS = "/usr/local/sbin/gpulease-host-keys"
AGENT = "/etc/gpulease/agent.json"


def wanted(host_keys_token: str = "1" * 64, agent_token: str = "2" * 64, **changes: Any) -> LaunchSpec:
    report = HostKeyReport(url="https://gpu.example.org/v1/host-keys", token=host_keys_token)
    return spec(host_keys=report, agent=AgentConfig(token=agent_token, url="https://gpu.example.org"), **changes)


def written(provider: str, of: LaunchSpec, spec_of_front: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The files that the first boot writes. With `spec_of_front`, cloudsim's VM is that slot of a batch."""
    vm: Any = Vm.__new__(Vm)
    vm.provider, vm.name = provider, NAME
    data = {"user_data": aws.packed(of)} if provider == "aws" else {"metadata": _metadata(of)}
    vm.spec = {**data, **(spec_of_front or {})}
    return {path: content.decode() for path, content in files(vm).items()}


def _metadata(of: LaunchSpec) -> dict[str, str]:
    return {item["key"]: item["value"] for item in gcp.items(of)}


def of_slot(provider: str) -> LaunchSpec:
    """The launch of a single VM with the tokens that a slot has."""
    slot = SLOTS[provider]
    return wanted(slot_token(SECRET, "host-keys", slot), slot_token(SECRET, "agent", slot))


class Metadata(BaseHTTPRequestHandler):
    """Answers as the metadata services do, and refuses a request without the header that they need."""

    def do_PUT(self) -> None:
        self._answer(
            self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"], "session"
        )

    def do_GET(self) -> None:
        if self.path == "/latest/meta-data/ami-launch-index":
            self._answer(self.headers["X-aws-ec2-metadata-token"] == "session", SLOTS["aws"])
        else:
            right = self.path == "/computeMetadata/v1/instance/name"
            self._answer(right and self.headers["Metadata-Flavor"] == "Google", SLOTS["gcp"])

    def _answer(self, good: object, text: str) -> None:
        self.send_response(200 if good else 403)
        self.end_headers()
        self.wfile.write(text.encode() if good else b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


@pytest.fixture
def metadata() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Metadata)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(provider: str, program: str, base: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The program as the VM runs it, over a folder that stands for the VM's disk."""
    content = program.replace(BASES[provider], base).replace('"/', f'"{folder}/').replace(f'"{folder}/" +', '"/" +')
    content = content.replace("time.sleep(pause)", "time.sleep(0)")
    return subprocess.run([sys.executable, "-c", content], capture_output=True, text=True, timeout=60, check=False)


def shared() -> LaunchSpec:
    return slot_tokens.shared(wanted(slot_secret=SECRET))


def on_disk(provider: str, folder: Path) -> dict[str, str]:
    """The files of a batch, before the program has run. cloudsim runs it at once, so they come from the adapter."""
    found = written(provider, replace(shared(), slot_secret=None))
    (program,) = slot_tokens.files(shared(), aws._SLOT if provider == "aws" else gcp._SLOT)
    for path in (HOST_KEYS, AGENT):
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(found[path])
    return {**found, slot_tokens.PATH: program["content"]}


@pytest.mark.parametrize("provider", SLOTS)
def test_the_vm_derives_the_tokens_that_the_database_knows(provider: str, metadata: str, tmp_path: Path) -> None:
    before = on_disk(provider, tmp_path)
    assert "@agent@" in before[AGENT]
    done = run(provider, before[slot_tokens.PATH], metadata, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    single = written(provider, of_slot(provider))
    for path in (HOST_KEYS, AGENT):
        assert (tmp_path / path.lstrip("/")).read_text() == single[path]


@pytest.mark.parametrize("provider", SLOTS)
def test_without_metadata_the_tokens_stay_unknown(provider: str, tmp_path: Path) -> None:
    before = on_disk(provider, tmp_path)
    done = run(provider, before[slot_tokens.PATH], "http://127.0.0.1:9", tmp_path)
    assert "does not answer" in done.stderr
    assert (tmp_path / AGENT.lstrip("/")).read_text() == before[AGENT]


@pytest.mark.parametrize("provider", SLOTS)
def test_a_simulated_vm_has_the_same_tokens(provider: str) -> None:
    found = written(provider, shared(), {"launch_index": 17})
    single = written(provider, of_slot(provider))
    assert {path: found[path] for path in single} == single
    assert found[slot_tokens.PATH].count(SECRET) == 1


@pytest.mark.parametrize("provider", SLOTS)
def test_no_token_of_a_single_vm_is_in_shared_user_data(provider: str) -> None:
    text = " ".join(written(provider, shared()).values())
    assert "1" * 64 not in text
    assert "2" * 64 not in text


def test_tokens_run_before_the_programs_that_need_them() -> None:
    script = gcp.script(shared())
    lines = [
        script.index(f"\n{command}") for command in (slot_tokens.PATH, "systemctl start --no-block", "systemctl enable")
    ]
    assert lines == sorted(lines)
    config = aws.render(shared())
    assert config.index(f'["{slot_tokens.PATH}"]') < config.index('gpulease-host-keys.service"]')


def test_a_batch_without_secret_has_no_tokens_to_share() -> None:
    with pytest.raises(ValueError, match="slot_secret"):
        slot_tokens.shared(wanted())
    plain = spec()
    assert slot_tokens.shared(plain) == plain
    assert slot_tokens.files(replace(plain, slot_secret=SECRET), "return 1") == []


def test_tokens_differ_by_secret_purpose_and_slot() -> None:
    made = {
        slot_token(secret, purpose, slot) for secret in "ab" for purpose in ("agent", "host-keys") for slot in (1, 2)
    }
    assert len(made) == 8
    assert slot_token("a", "agent", 1) == slot_token("a", "agent", "1")

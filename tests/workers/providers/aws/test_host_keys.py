"""The VM's report of its host keys: what cloud-init is given, and the program itself, run against a server."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from cloudsim.user_data import first_boot
from tests.workers.providers.samples import spec
from workers.providers.aws import userdata
from workers.providers.types import HostKeyReport

TOKEN = "0123456789abcdef" * 4
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
ECDSA = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTY="


class Received(BaseHTTPRequestHandler):
    """Keeps what is posted; answers each request with the next of `answers`, the last one for ever."""

    answers: list[int]
    posts: list[tuple[str, dict[str, Any], str | None]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.posts.append((self.path, body, self.headers["Authorization"]))
        self.send_response(self.answers.pop(0) if self.answers[1:] else self.answers[0])
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


@contextmanager
def receiving(*answers: int) -> Iterator[tuple[str, Any]]:
    kept = type("Kept", (Received,), {"answers": list(answers), "posts": []})
    server = HTTPServer(("127.0.0.1", 0), kept)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/host-keys", kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def config(report: HostKeyReport | None) -> Any:
    return first_boot(userdata.packed(spec(host_keys=report, startup_script=None))).config


def program(url: str, token: str = TOKEN) -> dict[str, Any]:
    (found,) = (
        one
        for one in config(HostKeyReport(url=url, token=token))["write_files"]
        if one["path"].endswith("gpulease-host-keys")
    )
    return dict(found)


def run(url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The program as the VM runs it, with another folder of keys and no pauses."""
    content = program(url)["content"].replace("/etc/ssh/", f"{folder}/").replace("time.sleep(15)", "time.sleep(0)")
    return subprocess.run([sys.executable, "-c", content], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def ssh(tmp_path: Path) -> Path:
    """What sshd keeps in /etc/ssh."""
    (tmp_path / "ssh_host_ed25519_key.pub").write_text(f"{ED25519} root@ip-10-0-0-1\n")
    (tmp_path / "ssh_host_ecdsa_key.pub").write_text(f"{ECDSA} root@ip-10-0-0-1\n")
    (tmp_path / "ssh_host_dsa_key.pub").write_text("ssh-dss AAAA old\n")
    (tmp_path / "ssh_host_ed25519_key").write_text("PRIVATE")
    return tmp_path


def test_the_keys_are_told_once_without_comments_and_old_kinds(ssh: Path) -> None:
    with receiving(204) as (url, received):
        done = run(url, ssh)
    assert (done.returncode, done.stderr) == (0, "")
    assert received.posts == [("/v1/host-keys", {"keys": [ECDSA, ED25519]}, f"Bearer {TOKEN}")]


def test_a_server_in_trouble_is_asked_again(ssh: Path) -> None:
    with receiving(503, 502, 204) as (url, received):
        assert run(url, ssh).returncode == 0
    assert len(received.posts) == 3


@pytest.mark.parametrize("refusal", [401, 404, 422])
def test_a_refusal_is_final_and_never_fails_the_boot(ssh: Path, refusal: int) -> None:
    with receiving(refusal) as (url, received):
        done = run(url, ssh)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(received.posts) == 1


def test_nobody_there_never_fails_the_boot(ssh: Path) -> None:
    with receiving(204) as (url, _):
        pass
    assert run(url, ssh).returncode == 0


def test_only_root_reads_the_program() -> None:
    assert program("https://gpu.example.org/v1/host-keys")["permissions"] == "0700"


def test_cloud_init_starts_it_without_waiting_and_without_a_shell() -> None:
    commands = config(HostKeyReport(url="https://gpu.example.org/v1/host-keys", token=TOKEN))["runcmd"]
    assert commands[-1] == ["systemctl", "start", "--no-block", "gpulease-host-keys.service"]
    assert all(isinstance(word, str) for command in commands for word in command)


def test_without_an_address_to_tell_nothing_is_added() -> None:
    assert "host-keys" not in json.dumps(config(None))


@pytest.mark.parametrize("text", ['"; import os #', "'\n%s", "\\", "\u2028", "{x}%(y)s"])
def test_no_address_or_token_leaves_its_string(text: str) -> None:
    compiled = compile(program(f"https://h/{text}", text)["content"], "program", "exec")
    assert {f"https://h/{text}", text} <= {const for const in compiled.co_consts if isinstance(const, str)} | {
        one for const in compiled.co_consts if isinstance(const, tuple) for one in const
    }


def test_the_token_is_not_shown_by_accident() -> None:
    assert TOKEN not in repr(spec(host_keys=HostKeyReport(url="https://h", token=TOKEN)))

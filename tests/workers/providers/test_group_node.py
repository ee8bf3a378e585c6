"""What the VM of a group's member runs: the delivered program itself, in a root of its own, against a server."""

import json
import os
import pwd
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.agent import program
from app.agent.program import short
from app.local.waiting import wait_until
from tests.harness.databases import ROOT
from tests.workers.providers.samples import GROUP, spec
from tests.workers.providers.test_agent_delivery import CONFIG, START, cloud_config, files_at
from workers.providers.aws import userdata as aws
from workers.providers.common import agent, group_node, slot_tokens
from workers.providers.common.group_keys import public_line
from workers.providers.gcp import userdata as gcp

PATIENCE = 60.0
ME = pwd.getpwuid(os.getuid())


class Answers(BaseHTTPRequestHandler):
    """Answers each VM, known by its token, with what `groups` has for it."""

    groups: dict[str, tuple[int, bytes]]
    reports: dict[str, Any]

    def do_POST(self) -> None:
        report = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reports[self.headers["Authorization"].removeprefix("Bearer ")] = report
        self.send_response(204)
        self.end_headers()

    def do_GET(self) -> None:
        if self.path == group_node.ALL_REDUCE_PATH:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.groups["all-reduce"][1])
            return
        status, body = self.groups.get(self.headers["Authorization"].removeprefix("Bearer "), (401, b""))
        self.send_response(status if self.path == "/v1/group-hosts" else 404)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""


class Api:
    """The API as VMs see it. `Node` i has the token `token-i`."""

    def __init__(self, url: str, groups: dict[str, tuple[int, bytes]], reports: dict[str, Any], port: int) -> None:
        self.url, self._groups, self._reports, self.port = url, groups, reports, port
        self._network = f"127.{port // 256}.{port % 256}"
        self.serve(program.all_reduce_source())

    def address(self, node: int) -> str:
        """An address that no other test uses: a connection of theirs may have one of the ports that nodes listen at."""
        return f"{self._network}.{node + 1}"

    def serve(self, source: bytes) -> None:
        """`source`: the program of the all-reduce, that VMs accept."""
        self._groups["all-reduce"] = (200, source)
        self.digest = sha256(source).hexdigest()

    def tell(self, *nodes: int, complete: bool = True) -> None:
        hosts = [{"rank": rank, "private_ip": self.address(node), "gpus": 8} for rank, node in enumerate(nodes)]
        shared = {"group_id": GROUP.group_id, "size": len(nodes), "complete": complete, "hosts": hosts}
        master = {"master_addr": hosts[0]["private_ip"], "master_port": 29500}
        for rank, node in enumerate(nodes):
            self._groups[f"token-{node}"] = (200, json.dumps({**shared, **master, "rank": rank}).encode())

    def told(self, node: int) -> Any:
        """The last report of a VM about its group, in which None is left out."""
        report = self._reports.get(f"token-{node}", {})
        return {name: value for name, value in report.items() if value is not None}

    def answer(self, node: int, status: int, body: bytes) -> None:
        self._groups[f"token-{node}"] = (status, body)


@pytest.fixture
def api() -> Iterator[Api]:
    groups: dict[str, tuple[int, bytes]] = {}
    reports: dict[str, Any] = {}
    server = HTTPServer(("127.0.0.1", 0), type("Kept", (Answers,), {"groups": groups, "reports": reports}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    yield Api(f"http://127.0.0.1:{server.server_port}/v1/group-hosts", groups, reports, port)
    server.shutdown()
    thread.join()
    server.server_close()


class Node:
    """A VM: a folder in which the program runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / ME.pw_dir.lstrip("/")

    def text(self, path: str) -> str:
        file = self.root / path.lstrip("/")
        return file.read_text() if file.exists() else ""

    @property
    def env(self) -> dict[str, str]:
        """What a shell reads from group.env."""
        file = self.root / "etc/gpulease/group.env"
        if not file.exists():
            return {}
        shown = subprocess.run(
            ["/bin/sh", "-c", f"set -a; . {file}; /usr/bin/env"], check=True, env={}, capture_output=True, text=True
        )
        return dict(line.split("=", 1) for line in shown.stdout.splitlines())

    def has(self, **values: str) -> Callable[[], bool]:
        return lambda: self.env.items() >= values.items()


@contextmanager
def node(
    api: Api, number: int, folder: Path, mesh_seconds: float = 30.0, all_reduce: dict[str, Any] | None = None
) -> Iterator[Node]:
    vm = Node(folder / f"node-{number}")
    delivered = {one["path"]: one["content"] for one in group_node.files(spec(group=GROUP, ssh_port=2222))}
    settings = json.loads(delivered[group_node.CONFIG]) | {"url": api.url, "token": f"token-{number}"}
    settings |= {"fast_seconds": 0.05, "slow_seconds": 0.1, "mesh_seconds": mesh_seconds, "mesh_port": api.port}
    url = api.url.replace(group_node.HOSTS_PATH, group_node.ALL_REDUCE_PATH)
    settings["all_reduce"] |= {"url": url, "sha256": api.digest, "port": api.port + 1} | (all_reduce or {})
    settings["ssh"]["user"], settings["address"] = ME.pw_name, api.address(number)
    (vm.home / ".ssh").mkdir(parents=True)
    (vm.home / ".ssh/authorized_keys").write_text("ssh-ed25519 AAAA of-the-tenant")
    (vm.root / "etc/gpulease").mkdir(parents=True)
    (vm.root / "etc/gpulease/group.json").write_text(json.dumps(settings))
    (vm.root / "etc/hosts").write_text("127.0.0.1 localhost")
    command = [sys.executable, "-c", delivered[group_node.PROGRAM]]
    with subprocess.Popen(command, env={"GPULEASE_ROOT": str(vm.root)}) as process:
        try:
            yield vm
            assert process.poll() is None
        finally:
            process.kill()


def eventually(condition: Callable[[], bool]) -> None:
    assert wait_until(condition, timeout=PATIENCE)


def test_nodes_learn_their_ranks_and_reach_each_other(api: Api, tmp_path: Path) -> None:
    api.tell(0, 1, complete=False)
    with node(api, 0, tmp_path) as first, node(api, 1, tmp_path) as second:
        assert not wait_until(lambda: bool(first.env or second.env), timeout=0.3)
        api.tell(0, 1)
        for rank, one in enumerate((first, second)):
            eventually(one.has(NODE_RANK=str(rank), GPULEASE_MESH="ok"))
            assert (
                one.env.items()
                >= {
                    "GROUP_ID": GROUP.group_id,
                    "NNODES": "2",
                    "MASTER_ADDR": api.address(0),
                    "MASTER_PORT": "29500",
                    "GPULEASE_HOSTS": "/etc/gpulease/hosts",
                }.items()
            )
            assert one.text("/etc/gpulease/hosts") == f"{api.address(0)} slots=8\n{api.address(1)} slots=8\n"
            assert one.text("/etc/hosts").splitlines()[:1] == ["127.0.0.1 localhost"]
            assert f"{api.address(1)} node-1\n" in one.text("/etc/hosts")


def test_a_larger_group_and_a_replaced_member_are_noticed(api: Api, tmp_path: Path) -> None:
    api.tell(0, 1)
    with ExitStack() as stack:
        first = stack.enter_context(node(api, 0, tmp_path))
        stack.enter_context(node(api, 1, tmp_path))
        eventually(first.has(NNODES="2", GPULEASE_MESH="ok"))
        api.tell(0, 1, 2)
        third = stack.enter_context(node(api, 2, tmp_path))
        eventually(first.has(NNODES="3", GPULEASE_MESH="ok"))
        eventually(third.has(NODE_RANK="2", GPULEASE_MESH="ok"))
        api.tell(0, 3, 2)
        stack.enter_context(node(api, 3, tmp_path))
        eventually(lambda: f"{api.address(3)} node-1\n" in first.text("/etc/hosts"))
        assert api.address(3) in first.text("/etc/gpulease/hosts")
        eventually(first.has(NNODES="3", GPULEASE_MESH="ok"))
        names = first.text("/etc/hosts")
        assert api.address(1) not in names
        assert names.count("node-0") == 1
        api.tell(0, complete=False)
        assert not wait_until(lambda: first.env["NNODES"] != "3", timeout=0.3)


def test_members_alone_log_in_with_the_key_of_the_group(api: Api, tmp_path: Path) -> None:
    api.tell(0, 1)
    with node(api, 0, tmp_path) as first, node(api, 1, tmp_path):
        eventually(first.has(GPULEASE_MESH="ok"))
        key = first.home / ".ssh/gpulease_group"
        assert (key.read_text(), key.stat().st_mode & 0o777) == (GROUP.ssh_private_key, 0o600)
        (of_tenant, ours) = (first.home / ".ssh/authorized_keys").read_text().splitlines()
        assert of_tenant == "ssh-ed25519 AAAA of-the-tenant"
        assert (
            ours == f'from="{api.address(0)},{api.address(1)}" {public_line(str(GROUP.ssh_private_key))} gpulease-group'
        )
        config = first.root / "etc/ssh/ssh_config.d/60-gpulease-group.conf"
        for name in ("node-1", api.address(1)):
            command = ["ssh", "-F", str(config), "-G", name]
            shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            assert {"port 2222", "identityfile ~/.ssh/gpulease_group", "stricthostkeychecking false"} <= set(shown)


def test_a_silent_member_fails_the_check_until_it_answers(api: Api, tmp_path: Path) -> None:
    api.tell(0, 1)
    with node(api, 0, tmp_path, mesh_seconds=0.0) as first:
        eventually(first.has(GPULEASE_MESH="failed", NNODES="2"))
        silent = {"nodes": 2, "mesh": "failed", "unreachable": [1], "all_reduce": "unavailable"}
        eventually(lambda: api.told(0) == silent)
        with node(api, 1, tmp_path):
            eventually(first.has(GPULEASE_MESH="ok"))
            eventually(lambda: api.told(0) == {**silent, "mesh": "ok", "unreachable": []})


def fake_gpus(folder: Path, **state: Any) -> bytes:
    """The program of the all-reduce over fake libraries."""
    file = folder / "gpus.json"
    file.write_text(json.dumps({"model": "H100", "count": 2, **state}))
    fake = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom pathlib import Path\nimport ctypes\n"
    fake += "from cloudsim.gpus.fake_nvml import fake_loader\n"
    fake += f"ctypes.CDLL = fake_loader(Path({str(file)!r}), lambda: None)\n"
    text = program.all_reduce_source().decode()
    return (fake + text.replace("from __future__ import annotations\n", "", 1)).encode()


def test_members_reduce_once_over_all_gpus(api: Api, tmp_path: Path) -> None:
    api.serve(fake_gpus(tmp_path))
    api.tell(0, 1)
    with node(api, 0, tmp_path) as first, node(api, 1, tmp_path) as second:
        for one in (first, second):
            eventually(one.has(GPULEASE_MESH="ok", GPULEASE_ALLREDUCE="ok"))
        figure = first.env["GPULEASE_ALLREDUCE_GBPS"]
        assert float(figure) > 0
        whole = {"nodes": 2, "mesh": "ok", "unreachable": [], "all_reduce": "ok", "all_reduce_gbps": float(figure)}
        eventually(lambda: api.told(0) == whole)
        api.tell(0, 1, 2)
        with node(api, 2, tmp_path) as third:
            eventually(third.has(NNODES="3", GPULEASE_MESH="ok", GPULEASE_ALLREDUCE="unavailable"))
            eventually(first.has(NNODES="3", GPULEASE_ALLREDUCE="ok", GPULEASE_ALLREDUCE_GBPS=figure))


def test_without_gpus_the_group_waits_for_nothing(api: Api, tmp_path: Path) -> None:
    api.tell(0, 1)
    with node(api, 0, tmp_path) as first, node(api, 1, tmp_path) as second:
        for one in (first, second):
            eventually(one.has(GPULEASE_MESH="ok", GPULEASE_ALLREDUCE="unavailable"))


@pytest.mark.parametrize("broken", [{"seconds": 0.3}, {"sha256": "0" * 64}, {"url": "http://127.0.0.1:9/"}], ids=str)
def test_a_library_that_hangs_or_a_program_that_is_not_there_holds_nothing_up(
    api: Api, tmp_path: Path, broken: dict[str, Any]
) -> None:
    api.serve(fake_gpus(tmp_path, allreduce="hangs"))
    api.tell(0, 1)
    with node(api, 0, tmp_path, all_reduce=broken) as first, node(api, 1, tmp_path, all_reduce=broken) as second:
        eventually(first.has(NNODES="2", GPULEASE_MESH="ok", GPULEASE_ALLREDUCE="failed"))
        eventually(second.has(NNODES="2", GPULEASE_MESH="ok"))
        assert second.env["GPULEASE_ALLREDUCE"] in {"failed", "unavailable"}, (
            "the first member may have given up before"
        )


def test_strangers_to_the_group_have_another_secret() -> None:
    secrets = set()
    for group_id, key in ((GROUP.group_id, GROUP.ssh_private_key), ("group_2", GROUP.ssh_private_key)):
        files = group_node.files(spec(group=replace(GROUP, group_id=group_id, ssh_private_key=key)))
        settings = next(json.loads(one["content"]) for one in files if one["path"] == group_node.CONFIG)
        secrets.add(settings["all_reduce"]["secret"])
    assert len(secrets) == 2


@pytest.mark.parametrize(("status", "body"), [(401, b""), (404, b"{}"), (500, b""), (200, b"<html>"), (200, b"{}")])
def test_no_answer_ends_the_program_or_changes_a_file(status: int, body: bytes, api: Api, tmp_path: Path) -> None:
    api.answer(0, status, body)
    with node(api, 0, tmp_path) as vm:
        assert not wait_until(lambda: bool(vm.env), timeout=0.3)
        api.tell(0)
        eventually(vm.has(NNODES="1", GPULEASE_MESH="ok"))


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
def test_a_member_gets_the_program_and_its_settings(provider: str) -> None:
    files = files_at(provider, spec(group=GROUP, agent=CONFIG))
    assert files[group_node.PROGRAM] == group_node.program()
    settings = json.loads(files[group_node.CONFIG])
    assert (settings["url"], settings["token"]) == (GROUP.hosts_url, GROUP.token)
    assert f"ExecStart={group_node.PROGRAM}" in files[f"/etc/systemd/system/{group_node.UNIT}"]


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
@pytest.mark.parametrize("group", [None, replace(GROUP, hosts_url=None, ssh_private_key=None)])
def test_a_vm_that_does_not_ask_gets_nothing(provider: str, group: Any) -> None:
    assert not [path for path in files_at(provider, spec(group=group)) if "group" in path]


def test_the_program_starts_before_the_agent_that_the_boot_waits_for() -> None:
    commands = cloud_config(aws.packed(spec(group=GROUP, agent=CONFIG)))["runcmd"]
    start = ["systemctl", "start", "--no-block", group_node.UNIT]
    assert commands.index(start) < commands.index(START)
    script = gcp.script(spec(group=GROUP, agent=CONFIG))
    assert script.index(f"start --no-block {group_node.UNIT}") < script.index(f"start {agent.UNIT}")


def test_only_root_may_read_token_and_key() -> None:
    modes = {file["path"]: file["permissions"] for file in group_node.files(spec(group=GROUP))}
    assert (modes[group_node.CONFIG], modes[group_node.PROGRAM]) == ("0600", "0700")


def test_the_program_is_short_and_fits_beside_the_agent() -> None:
    assert len(group_node.program().splitlines()) <= 160
    for secret in (None, "5a" * 32):
        both = cloud_config(aws.packed(spec(group=GROUP, agent=CONFIG, slot_secret=secret)))["write_files"]
        content = {file["path"]: file["content"] for file in both}
        assert group_node.PROGRAM in content
        assert content[agent.PROGRAM] == short(benchmark=CONFIG.benchmark), "the agent itself, not its loader"


def test_in_a_batch_the_vm_derives_the_token_itself() -> None:
    of_batch = slot_tokens.shared(spec(group=GROUP, slot_secret="5a" * 32))
    (derives,) = slot_tokens.files(of_batch, "return '0'")
    assert group_node.CONFIG in derives["content"]
    (settings,) = (one for one in group_node.files(of_batch) if one["path"] == group_node.CONFIG)
    assert json.loads(settings["content"])["token"] == "@agent@"
    with pytest.raises(ValueError, match="slot_secret"):
        slot_tokens.shared(spec(group=GROUP))

"""The agent opens nothing of the tenant's: every file, program and connection of its run, from Python's audit events."""

import json
import subprocess
import sys
from pathlib import Path

from tests.agent.vms import AGENT, SECONDS, FakeApi, FakeVm, serving

AUDITED = """
import json, os, sys
seen = []
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir", "subprocess.Popen", "socket.connect", "glob.glob"):
        with_mode = [str(one) for one in arguments[:2]]
        os.write(3, (json.dumps([event, with_mode]) + "\\n").encode())
sys.path.insert(0, sys.argv.pop(1))
import gpulease_agent
import xml.etree.ElementTree
sys.addaudithook(hook)
sys.exit(gpulease_agent.main(sys.argv[1:]))
"""
OWN = ("/etc/gpulease/agent.json", "/run/gpulease/")
KERNEL = ("/proc/uptime", "/proc/stat", "/proc/meminfo", "/proc/sys/kernel/random/boot_id", "/dev/kmsg", "/dev/ttyS0")
PROGRAMS = {"nvidia-smi", "amd-smi", "rocm-smi"}


def audit(vm: FakeVm, log: Path, command: str) -> list[tuple[str, list[str]]]:
    arguments = [sys.executable, "-I", "-c", AUDITED, str(AGENT.parent), command, "--root", str(vm.root)]
    script = 'exec 3>>"$0"; exec "$@"'
    subprocess.run(["/bin/sh", "-c", script, str(log), *arguments], check=True, timeout=SECONDS)
    return [(event, values) for event, values in map(json.loads, log.read_text().splitlines())]


def test_the_agent_opens_its_own_files_and_the_kernels_alone(vm: FakeVm, tmp_path: Path) -> None:
    (vm.root / "home/alice").mkdir(parents=True)
    (vm.root / "home/alice/secret").write_text("secret")
    vm.run("show")  # makes the kernel's files
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        seen = [*audit(vm, tmp_path / "proof", "proof"), *audit(vm, tmp_path / "sample", "sample")]
        port = int(api.url.rpartition(":")[2])
    assert {event for event, _ in seen} >= {"open", "subprocess.Popen", "socket.connect"}
    for event, (first, *rest) in seen:
        if event == "subprocess.Popen":
            assert first in PROGRAMS
        elif event == "socket.connect":
            assert rest == [str(("127.0.0.1", port))]
        elif event == "open" and first.startswith(str(vm.root)):
            assert first.removeprefix(str(vm.root)).startswith((*OWN, *KERNEL)), first
        else:
            # pipes of children, the interpreter's own modules, and its way to look up a host
            assert event == "open", (event, first)
            assert first.isdigit() or first.startswith((sys.prefix, sys.base_prefix, "/dev/null")), first
    assert len(api.requests) == 2

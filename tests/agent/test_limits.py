"""The agent's limits: Python 3.8 and its standard library, length, memory, and processor time."""

import ast
import os
import subprocess
import sys
from pathlib import Path

from app.agent import program
from tests.agent.vms import AGENT, SECONDS, FakeApi, FakeVm, serving

LONGEST = 900
MOST_MEMORY_KIB = 25 * 1024
MOST_SECONDS_PER_SAMPLE = 0.002 * 60
"""0.2 % of a core at one sample a minute."""

NEWER = {
    "removeprefix", "removesuffix", "bit_count", "pairwise", "batched", "aclosing", "nullcontext_async", "is_relative_to",
    "with_stem", "hardlink_to", "readlink", "randbytes", "cache", "StrEnum", "UTC", "override", "Self", "TypeAlias",
    "ParamSpec", "file_digest", "waitstatus_to_exitcode", "pidfd_open", "memfd_create", "as_integer_ratio",
}  # fmt: skip
"""Names of the standard library that Python 3.8 lacks, or that only some systems have."""


def test_the_program_is_short() -> None:
    assert program.source().count(b"\n") <= LONGEST


def test_both_forms_are_python_3_8() -> None:
    texts = (program.source(), program.all_reduce_source())
    for text in (*(one.decode() for one in texts), program.short(benchmark=True), program.short(benchmark=False)):
        tree = ast.parse(text, feature_version=(3, 8))
        assert {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & NEWER == set()
        assert {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & NEWER == set()


def test_annotations_are_not_evaluated() -> None:
    """`list[int]` and `int | None` would fail in Python 3.8 anywhere but in an annotation."""
    tree = ast.parse(program.source())
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert [alias.name for node in futures for alias in node.names] == ["annotations"]


def test_only_the_standard_library_is_imported() -> None:
    nodes = list(ast.walk(ast.parse(program.source())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def oldest_python() -> str:
    """Python 3.8 if this machine has one, else the Python of the tests."""
    found = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))
    return str(found[0]) if found else sys.executable


def test_both_forms_run_without_a_gpu(vm: FakeVm, tmp_path: Path) -> None:
    (vm.root / "dev").mkdir(parents=True)
    (vm.root / "dev/ttyS0").touch()
    short = tmp_path / "short"
    short.write_text(program.short(benchmark=False))
    for path in (AGENT, short):
        for command in ("proof", "show"):
            done = subprocess.run(
                [oldest_python(), "-I", str(path), command, "--root", str(vm.root)],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert (command == "show") == ('"gpus": []' in done.stdout)
    assert vm.console.count("gpulease-proof") == 2


def test_the_service_needs_little_memory_and_time(vm: FakeVm) -> None:
    """The program itself, with TLS, after some samples. NVML runs in a child of a few milliseconds."""
    with serving(FakeApi()) as api:
        vm.configure(api.url)
        command = [sys.executable, "-I", str(AGENT), "run", "--interval", "0.05", "--root", str(vm.root)]
        with subprocess.Popen(command) as process:
            try:
                count = len(api.wait("samples", 2))
                before = _seconds(process.pid)
                api.wait("samples", count + 10)
                after = _seconds(process.pid)
                done = len(api.bodies("samples")) - count
                assert _resident_kib(process.pid) <= MOST_MEMORY_KIB
            finally:
                process.kill()
    assert (after - before) / done <= MOST_SECONDS_PER_SAMPLE


def _seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def _resident_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def test_a_lease_without_a_benchmark_gets_a_smaller_program() -> None:
    short, full = program.short(benchmark=False), program.short(benchmark=True)
    assert len(short) < len(full) < len(program.source())
    assert "cuMemcpyHtoDAsync_v2" in full
    assert "cuMemcpyHtoDAsync_v2" not in short
    assert "cublasGemmEx" in short, "the proof multiplies"
    assert short.isascii()

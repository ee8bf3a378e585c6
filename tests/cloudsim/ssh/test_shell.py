"""The shell of a simulated VM: it shows facts, says that it is simulated, and starts nothing."""

import pytest

from cloudsim.ssh import shell
from cloudsim.world import Gpu


class OneVolume:
    """Files below /data."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read(self, path: str) -> str | None:
        return self.texts.get(path)

    def write(self, path: str, text: str) -> bool:
        if path.startswith("/data/"):
            self.texts[path] = text
        return path in self.texts


FACTS = shell.Facts(
    user="ubuntu",
    host="ip-172-31-0-4",
    vm_id="i-1",
    instance_type="p4d.24xlarge",
    zone="us-east-1a",
    vcpus=96,
    memory_mib=1_179_648,
    gpu=Gpu("A100", "NVIDIA", 8, 40_960),
    uptime_seconds=3.2,
    files=OneVolume(),
)


def test_it_says_that_nothing_is_real() -> None:
    assert shell.banner(FACTS).startswith("SIMULATED VM")
    assert "8 × A100 with 40 GiB" in shell.banner(FACTS)
    assert "(simulated)" in shell.prompt(FACTS)


def test_nvidia_smi_shows_the_gpus_of_the_instance_type_within_80_columns() -> None:
    output = shell.run("nvidia-smi", FACTS).output
    assert output.count("NVIDIA A100") == 8
    assert "simulated" in output
    assert {len(line) for line in output.splitlines()} == {len(output.splitlines()[0])} <= set(range(80))
    assert shell.run("nvidia-smi -L", FACTS).output.splitlines()[7] == "GPU 7: A100 (simulated)"


@pytest.mark.parametrize(
    ("line", "output", "status"),
    [
        ("whoami", "ubuntu\n", 0),
        ("echo 'a  b' $(id)", "a  b $(id)\n", 0),
        ("false", "", 1),
        ("sudo cloud-init status --long", "status: done (simulated: no start-up script runs here)\n", 0),
        ("exit 7", "", 7),
        ("", "", 0),
    ],
)
def test_some_commands_work(line: str, output: str, status: int) -> None:
    result = shell.run(line, FACTS)
    assert (result.output, result.status) == (output, status)


@pytest.mark.parametrize("line", ["rm -rf /", "/bin/sh", "sudo bash", "bash -c id", "less /etc/passwd"])
def test_other_commands_are_refused_by_name(line: str) -> None:
    result = shell.run(line, FACTS)
    assert result.status == shell.NOT_FOUND
    assert "not part of the simulation. Commands: cat" in result.error


def test_an_open_quote_is_an_error_of_the_line() -> None:
    assert shell.run("echo 'a", FACTS).status == 2


def test_a_file_on_a_volume_is_written_and_read() -> None:
    assert shell.run("echo epoch 7 > /data/checkpoint", FACTS) == shell.Result()
    assert shell.run("cat /data/checkpoint", FACTS) == shell.Result("epoch 7\n")
    assert shell.run("sudo cat /data/checkpoint /data/none", FACTS).output == "epoch 7\n"


@pytest.mark.parametrize("line", ["cat /etc/passwd", "cat /data/none", "echo x > /etc/passwd"])
def test_other_files_do_not_exist(line: str) -> None:
    result = shell.run(line, FACTS)
    assert (result.status, result.output) == (1, "")
    assert "No such file" in result.error

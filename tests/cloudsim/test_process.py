import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from cloudsim.__main__ import main
from cloudsim.testing import own_process, running


def test_sigterm_ends_within_two_seconds_though_a_request_hangs() -> None:
    with own_process("--boot-seconds", "7") as (started, sim):
        assert sim.call("GET", "settings")["boot_seconds"] == 7
        sim.fault("*", "hang", times=None)
        hanging = socket.create_connection(("127.0.0.1", int(sim.url.rpartition(":")[2])))
        body = b"Action=DescribeRegions&Version=2016-11-15"
        hanging.sendall(
            b"POST / HTTP/1.1\r\nhost: x\r\nauthorization: Credential=AKIA/20261120/us-east-1/ec2/aws4_request\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        while "DescribeRegions" not in sim.calls():
            threading.Event().wait(0.01)
        asked = time.monotonic()
        started.send_signal(signal.SIGTERM)
        assert started.wait(5) == 0
        assert time.monotonic() - asked < 2
        hanging.close()


def test_kill_9_loses_at_most_the_last_second(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    with own_process("--state", state) as (started, sim):
        planted = sim.plant(region="us-east-1", instance_type="g5.xlarge", count=100)
        threading.Event().wait(1)
        os.kill(started.pid, signal.SIGKILL)
    with running(state=tmp_path / "state") as sim:
        assert [truth["id"] for truth in sim.instances()] == planted


def test_a_taken_port_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--port", str(port)]) == 2
    assert capsys.readouterr().err == f"cloudsim: port {port} on 127.0.0.1 is taken\n"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_only_loopback_is_served(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--host", host, "--port", "0"]) == 2
    assert capsys.readouterr().err == f"cloudsim: {host} is not a loopback address\n"


def test_a_state_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to be looked at as one" * 50)
    for path in (tmp_path / "text", tmp_path / "no" / "folder"):
        assert main(["--port", "0", "--state", str(path)]) == 2
        assert f"state file {path}" in capsys.readouterr().err


def test_a_senseless_setting_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--boot-seconds", "soon", "--port", "0"]) == 2
    assert capsys.readouterr().err.startswith("cloudsim: boot_seconds: ")


@pytest.mark.parametrize("address", ["203.0.113.7", "nowhere"])
def test_vms_have_no_address_but_one_of_this_machine(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--vm-address", address, "--port", "0"]) == 2
    assert "vm_address" in capsys.readouterr().err

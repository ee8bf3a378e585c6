"""Ctrl-C is one exit code, at each question."""

import contextlib
import io
import signal
import subprocess

import pytest

from app.cli import command
from app.cli.errors import FAILED, INTERRUPTED
from app.cli.session import Connection, Session
from tests.cli.conftest import Cli
from tests.cli.fake_api import FakeApi, a_lease
from tests.cli.terminal import Terminal

CREATE = ["lease", "create", "--gpu", "T4:1", "--ttl", "1h", "--yes"]
QUESTIONS = {
    "confirm": (["lease", "release", "--all"], "[y/N]"),
    "new key": (CREATE, "This machine has no SSH key"),
    "one of two keys": (CREATE, "Number, or 0"),
    "hidden": (["profile", "add", "prod", "--url", "https://api.test"], "API key"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_interrupt_at_a_question_is_130(api: FakeApi, cli: Cli, question: str) -> None:
    api.add(a_lease())
    api.ssh_keys.clear()
    keys = cli.home / ".ssh"
    keys.mkdir()
    if question == "one of two keys":
        for name, last in (("id_a", "A"), ("id_b", "B")):
            blob = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 42 + last
            (keys / f"{name}.pub").write_text(f"ssh-ed25519 {blob} me\n")
    words, text = QUESTIONS[question]
    with Terminal(cli, words, environ={"HOME": str(cli.home)}) as terminal:
        seen, pipe = "", terminal.process.stderr
        assert pipe is not None
        while text not in seen:
            seen += pipe.read(1)
        # a person presses again where the key came between the question and the wait for its answer
        while terminal.process.poll() is None:
            terminal.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                terminal.process.wait(1)
        code, errors = terminal.finish()
    assert code == INTERRUPTED, errors
    assert "interrupted" in errors
    assert len(api.leases) == 1
    assert not [asked for asked in api.asked if asked.method != "GET"]


def test_the_end_of_input_at_a_question_is_another_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with Session(Connection()) as session:
        assert command._exit_code(session, lambda: session.confirm("Release?")) == FAILED
    assert "the input ended before an answer" in capsys.readouterr().err

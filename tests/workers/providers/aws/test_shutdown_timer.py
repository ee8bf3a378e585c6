"""The script that watches the deadline inside the VM, run by a real shell with stand-ins for curl and shutdown."""

import shutil
import subprocess
from pathlib import Path

import pytest

from workers.providers.aws.shutdown_timer import SCRIPT, cloud_config

NOW = 1_795_200_000

CURL = """#!/bin/sh
case "$*" in
  *"-X PUT"*"/api/token") echo session-token ;;
  *"X-aws-ec2-metadata-token: session-token"*"/tags/instance/gpulease-deadline") [ -n "$TAG" ] && printf %s "$TAG" ;;
  *) exit 22 ;;
esac
"""


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    shims = {"curl": CURL, "date": f"#!/bin/sh\necho {NOW}\n", "shutdown": '#!/bin/sh\necho "$*" > "$ENDED"\n'}
    for name, text in shims.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def ended(commands: Path, tag: str) -> bool:
    """Whether the script shuts the VM down when its tag says `tag`."""
    mark = commands.parent / "ended"
    shell = shutil.which("sh")
    assert shell is not None
    subprocess.run([shell, "-c", SCRIPT], env={"PATH": str(commands), "TAG": tag, "ENDED": str(mark)}, check=True)
    return mark.exists()


@pytest.mark.parametrize("tag", [str(NOW), str(NOW - 1), "1"])
def test_a_vm_past_its_deadline_ends_itself(commands: Path, tag: str) -> None:
    assert ended(commands, tag)


@pytest.mark.parametrize("tag", [str(NOW + 1), str(NOW + 1_000_000)])
def test_a_vm_before_its_deadline_runs_on(commands: Path, tag: str) -> None:
    assert not ended(commands, tag)


@pytest.mark.parametrize("tag", ["", "soon", "17952x", "<html>404</html>", "-5", "1 2"])
def test_a_tag_that_cannot_be_read_ends_nothing(commands: Path, tag: str) -> None:
    assert not ended(commands, tag)


def test_no_metadata_service_ends_nothing(commands: Path) -> None:
    (commands / "curl").write_text("#!/bin/sh\nexit 7\n")
    assert not ended(commands, "1")


def test_the_timer_is_written_before_it_is_started() -> None:
    config = cloud_config()
    assert config["write_files"][0]["content"].startswith("#!/bin/sh\n")
    assert config["write_files"][0]["permissions"] == "0755"
    assert config["runcmd"][-1] == ["systemctl", "enable", "--now", "gpulease-deadman.timer"]
    assert any(one["path"] == "/etc/systemd/system/gpulease-deadman.timer" for one in config["write_files"])

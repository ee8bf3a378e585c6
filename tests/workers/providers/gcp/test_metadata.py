"""What the VM reads at its boot: the script, run by bash in a folder that stands for the VM."""

import subprocess
from pathlib import Path

import pytest

from tests.workers.providers.gcp.specs import spec
from workers.providers.errors import InvalidSpec
from workers.providers.gcp import userdata
from workers.providers.types import HostKeyReport

TOKEN = "0123456789abcdef" * 4
REPORT = HostKeyReport(url="https://gpu.example.org/v1/host-keys", token=TOKEN)
ATTRIBUTE = "http://metadata.google.internal/computeMetadata/v1/instance/guest-attributes/gpulease/ready"


class Machine:
    """A VM whose programs only write down that they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.state = folder / "state"
        tools = folder / "tools"
        tools.mkdir()
        for name in ("curl", "systemctl"):
            tool = tools / name
            tool.write_text(f'#!/bin/sh\necho {name} "$@" >>{self.log}\n')
            tool.chmod(0o755)
        self._path = f"{tools}:/usr/bin:/bin"

    def placed(self, script: str) -> str:
        """The script with the folder's places instead of the VM's."""
        here = script.replace("/var/lib/gpulease", str(self.state))
        return here.replace("/usr/local/sbin/", f"{self.folder}/sbin/").replace(
            "/etc/systemd/", f"{self.folder}/units/"
        )

    def boot(self, script: str) -> None:
        """Runs the start-up script as the guest agent does."""
        here = self.placed(script)
        done = subprocess.run(
            ["/bin/bash", "-c", here], env={"PATH": self._path}, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.stderr == ""

    def calls(self, program: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if line.startswith(program)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_readiness_is_told_at_every_boot_and_the_tenants_script_runs_once(machine: Machine) -> None:
    told = machine.folder / "told"
    script = userdata.script(spec(startup_script=f"#!/bin/bash\necho once >>{told}\n"))
    for _ in range(2):
        machine.boot(script)
    assert [ATTRIBUTE in call for call in machine.calls("curl")] == [True, True]
    assert told.read_text() == "once\n"


def test_the_tenants_script_comes_after_the_readiness(machine: Machine) -> None:
    machine.boot(userdata.script(spec(startup_script=f"#!/bin/sh\necho tenant >>{machine.log}\n")))
    assert [line.split()[0] for line in machine.log.read_text().splitlines()] == ["curl", "tenant"]


@pytest.mark.parametrize("text", ["END\nput 0700 /x <<'END'\n", "'\"`$(touch no)\\", "é\u2028\x07", "no interpreter"])
def test_no_script_leaves_its_place(machine: Machine, text: str) -> None:
    machine.boot(userdata.script(spec(startup_script=f"#!/bin/true\n{text}")))
    assert (machine.state / "startup-script").read_text() == f"#!/bin/true\n{text}"


OLD_CURL = """#!/bin/bash
# knows the options of 7.58 that are named here; fails as often as the file says
while [ $# -gt 0 ]; do
  case $1 in
    -s|-f|-sf) shift ;;
    -m|-o|-X|-H|-d) shift 2 ;;
    --retry|--retry-delay) shift 2 ;;
    -*) echo "curl: option $1: is unknown" >&2; exit 2 ;;
    *) url=$1; shift ;;
  esac
done
echo "curl $url" >>LOG
[ "$(wc -l <LOG)" -gt FAILURES ] || exit 22
"""


@pytest.mark.parametrize(("failures", "calls"), [(0, 1), (3, 4), (29, 30), (99, 30)])
def test_a_curl_of_2018_tells_the_readiness_and_is_repeated(machine: Machine, failures: int, calls: int) -> None:
    tool = machine.folder / "tools" / "curl"
    tool.write_text(OLD_CURL.replace("LOG", str(machine.log)).replace("FAILURES", str(failures)))
    (tool.parent / "sleep").write_text("#!/bin/sh\n")
    (tool.parent / "sleep").chmod(0o755)
    machine.boot(userdata.script(spec(startup_script=f"#!/bin/sh\necho tenant >>{machine.log}\n")))
    assert machine.log.read_text().splitlines() == [f"curl {ATTRIBUTE}"] * calls + ["tenant"]


def test_without_a_script_only_the_readiness_is_told(machine: Machine) -> None:
    machine.boot(userdata.script(spec(startup_script=None)))
    assert [line.split()[0] for line in machine.log.read_text().splitlines()] == ["curl"]


def test_the_host_keys_are_told_by_a_service_of_their_own_that_only_root_reads(machine: Machine) -> None:
    script = userdata.script(spec(host_keys=REPORT))
    assert TOKEN not in script
    machine.boot(script)
    program = machine.folder / "sbin" / "gpulease-host-keys"
    assert TOKEN in program.read_text()
    assert program.stat().st_mode & 0o777 == 0o700
    assert machine.calls("systemctl") == [
        "systemctl daemon-reload",
        "systemctl start --no-block gpulease-host-keys.service",
    ]
    assert (machine.folder / "units" / "system" / "gpulease-host-keys.service").exists()


def test_a_secret_is_never_readable_by_others_while_it_is_written() -> None:
    put = next(line for line in userdata.script(spec()).splitlines() if line.startswith("put()"))
    assert put.index("chmod") < put.index("base64")


@pytest.mark.parametrize(
    "key", ["", "ssh-rsa", "ssh-ed25519 AAAA\nubuntu:ssh-rsa BBBB", "ssh-dss AAAAB3NzaC1kc3MAAACBA"]
)
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidSpec, match="SSH public key"):
        userdata.items(spec(ssh_public_keys=(key,)))


def test_a_script_that_does_not_fit_is_refused() -> None:
    assert userdata.items(spec(startup_script="x" * 150_000))
    with pytest.raises(InvalidSpec, match="262144"):
        userdata.items(spec(startup_script="x" * 250_000))

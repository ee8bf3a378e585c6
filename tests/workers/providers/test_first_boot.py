"""What the first boot makes of a launch at each cloud, by the rules of the program that reads its user data.

`make cloud-init` gives the same user data to cloud-init itself.
"""

import base64
import gzip
import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.services.leases.requests import checked_script
from cloudsim.ssh.guest import guest
from cloudsim.user_data import PREFIXES, FirstBoot, first_boot
from tests.cloudsim.ssh.test_guest import kept, vm
from tests.workers.providers.aws.test_userdata import noise
from tests.workers.providers.gcp.specs import spec as gcp_spec
from tests.workers.providers.gcp.test_metadata import Machine
from tests.workers.providers.samples import KEY, spec
from workers.providers.aws import userdata as aws
from workers.providers.azure import userdata as azure
from workers.providers.common import cloud_init
from workers.providers.gcp import userdata as gcp
from workers.providers.types import AgentConfig, HostKeyReport, LaunchSpec

ADAPTERS = {"aws": aws, "azure": azure}
"""Those whose user data cloud-init reads."""
PROVIDERS = (*ADAPTERS, "gcp")
REPORT = HostKeyReport(url="https://gpu.example.org/v1/host-keys", token="f" * 64)
AGENT = AgentConfig(token="0123456789abcdef" * 4, url="https://gpu.example.org")

BODIES = {
    "#include": "http://127.0.0.1:9/x\n",
    "#cloud-config": "{}\n",
    "#cloud-config-jsonp": "[]\n",
    "#cloud-config-archive": "[]\n",
}
FOREIGN = [
    *(f"{prefix}\n{BODIES.get(prefix, '')}" for prefix in PREFIXES),
    '#cloud-config\n{"runcmd": [["touch", "/mine"]]}\n',
    '#cloud-config\n{"ssh_authorized_keys": []}\n',
    '#cloud-config\n{"write_files": [{"path": "/mine", "content": "x"}]}\n',
    'MIME-Version: 1.0\nContent-Type: text/cloud-config\n\n#cloud-config\n{"runcmd": []}\n',
]
"""Texts that cloud-init takes for something else than a script."""


def asked(script: str | None, **changes: Any) -> LaunchSpec:
    return spec(startup_script=script, host_keys=REPORT, agent=AGENT, **changes)


def ours(boot: FirstBoot) -> str:
    """The configuration without the tenant's file and the command that executes it."""
    files = [file for file in boot.config["write_files"] if file["path"] != cloud_init.STARTUP_SCRIPT]
    commands = [command for command in boot.config["runcmd"] if command != [cloud_init.STARTUP_SCRIPT]]
    return json.dumps({**boot.config, "write_files": files, "runcmd": commands}, sort_keys=True)


@pytest.mark.parametrize("provider", ADAPTERS)
@pytest.mark.parametrize("script", FOREIGN)
def test_no_script_changes_what_cloud_init_makes_of_the_rest(provider: str, script: str) -> None:
    plain, other = (first_boot(ADAPTERS[provider].packed(asked(text))) for text in (None, script))
    assert ours(other) == ours(plain)
    assert (other.scripts, other.others) == ({}, [])
    (file,) = (file for file in other.config["write_files"] if file["path"] == cloud_init.STARTUP_SCRIPT)
    assert file["permissions"] == "0700"
    assert gzip.decompress(base64.b64decode(file["content"])) == script.encode()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("script", [None, *FOREIGN])
def test_no_script_changes_who_logs_in_and_which_programs_of_ours_run(provider: str, script: str | None) -> None:
    found = guest(vm(provider, kept(provider, asked(script))))
    assert (found.authorized_keys, found.report) == ((KEY,), (REPORT.url, REPORT.token))


@pytest.mark.parametrize("provider", ADAPTERS)
def test_a_script_comes_last_so_that_one_without_end_keeps_nothing_of_ours_waiting(provider: str) -> None:
    commands = first_boot(ADAPTERS[provider].packed(asked("#!/bin/sh\n"))).config["runcmd"]
    assert commands[-1] == [cloud_init.STARTUP_SCRIPT]


def run_cloud_init(packed: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Writes the files below the folder, and runs the commands in one shell as the module `runcmd` does."""
    boot = first_boot(packed)
    tools = folder / "tools"
    tools.mkdir()
    (tools / "systemctl").write_text("#!/bin/sh\n")
    (tools / "systemctl").chmod(0o755)
    for file in boot.config["write_files"]:
        path = folder / file["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        text = file["content"].encode()
        path.write_bytes(gzip.decompress(base64.b64decode(text)) if "encoding" in file else text)
        path.chmod(int(file.get("permissions", "0644"), 8))
    lines = (shlex.join(command) for command in boot.config["runcmd"])
    script = "#!/bin/sh\n" + "\n".join(lines).replace("/var/lib/gpulease", f"{folder}/var/lib/gpulease") + "\n"
    return run_shell("/bin/sh", script, tools)


def run_shell(shell: str, script: str, tools: Path) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin"}
    return subprocess.run(
        [shell, "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def first_boot_of(provider: str, script: str, folder: Path) -> tuple[int, str]:
    """Exit code and output of the tenant's script, executed as the cloud executes it."""
    folder.mkdir()
    if provider == "gcp":
        machine = Machine(folder)
        done = run_shell("/bin/bash", machine.placed(gcp.script(gcp_spec(startup_script=script))), folder / "tools")
    else:
        done = run_cloud_init(ADAPTERS[provider].packed(spec(startup_script=script)), folder)
    return done.returncode, done.stdout


SCRIPTS = {
    "bash": ("#!/bin/bash\necho ${BASH_VERSION:+bash} $#\n", (0, "bash 0\n")),
    "no last line end": ("#!/bin/sh\necho end", (0, "end\n")),
    "blanks before the interpreter": ("#! /bin/sh\necho ran\n", (0, "ran\n")),
    "line ends of Windows": ("#!/bin/bash\r\ncase x in\r\nx) echo ran ;;\r\nesac\r\n", (0, "ran\n")),
    "another interpreter": ("#!/usr/bin/env perl\nprint 6 * 7, qq(\\n);\n", (0, "42\n")),
    "a failure": ("#!/bin/sh\necho before\nexit 3\n", (3, "before\n")),
    "unknown interpreter": ("#!/no/such/interpreter\necho never\n", (127, "")),
    "ends of other texts": ("#!/bin/sh\ncat <<'END'\nEND\necho END\n--=_gpulease_\n", (127, "END\n")),
    "not ASCII": ("#!/bin/sh\necho 'ü \u2028 🚀 \x07'\n", (0, "ü \u2028 🚀 \x07\n")),
    "as long as any": (f"#!/bin/sh\necho long\n# {noise(12_000)}\n", (0, "long\n")),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_the_same_at_each_cloud(provider: str, name: str, tmp_path: Path) -> None:
    script, expected = SCRIPTS[name]
    assert first_boot_of(provider, checked_script(script), tmp_path / "vm") == expected

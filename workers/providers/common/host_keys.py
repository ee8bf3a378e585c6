"""The VM's report of its public SSH host keys: one program that runs once after the first boot.

The program never fails the boot. It sends the keys to gpulease's API with a one-time token. The program contains the
URL and the token as JSON strings, which are valid Python literals. Nothing passes through a shell.
"""

import json
from typing import Any

from workers.providers.types import HostKeyReport

PATH = "/usr/local/sbin/gpulease-host-keys"
_UNIT = "gpulease-host-keys.service"

_PROGRAM = """#!/usr/bin/python3
# Tells gpulease the public SSH host keys of this VM, once. Gives up after ten minutes: then they stay unknown.
import glob, json, time, urllib.error, urllib.request
URL, TOKEN = %s, %s
KINDS = ("ssh-ed25519 ", "ecdsa-sha2-nistp", "ssh-rsa ")
lines = [open(name).readline() for name in sorted(glob.glob("/etc/ssh/ssh_host_*_key.pub"))]
keys = [" ".join(line.split()[:2]) for line in lines if line.startswith(KINDS)]
request = urllib.request.Request(URL, json.dumps({"keys": keys}).encode(), {
    "Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
for _ in range(40):
    try:
        urllib.request.urlopen(request, timeout=10)
        break
    except urllib.error.HTTPError as error:
        if error.code in (401, 404, 422):
            break
    except OSError:
        pass
    time.sleep(15)
"""
_SERVICE = f"""[Unit]
Description=Report the SSH host keys of this VM to gpulease
[Service]
Type=oneshot
TimeoutStartSec=900
ExecStart={PATH}
"""


def files(report: HostKeyReport) -> list[dict[str, Any]]:
    """The files that cloud-init must write. Only root can read them.

    Any process in the VM can read the token in the user data, from the metadata service.
    """
    program = _PROGRAM % (json.dumps(report.url), json.dumps(report.token))
    return [
        {"path": PATH, "permissions": "0700", "content": program},
        {"path": f"/etc/systemd/system/{_UNIT}", "content": _SERVICE},
    ]


def commands() -> list[list[str]]:
    """The commands that cloud-init must run after systemd has read the files. They do not wait for the report."""
    return [["systemctl", "start", "--no-block", _UNIT]]

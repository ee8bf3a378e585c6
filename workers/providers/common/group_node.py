"""What the VM of a group's member runs: a program that asks the API who the other members are, and keeps files about it.

`gpulease_group.py` is the program. It never delays the boot. Once, it fetches the program of the all-reduce from the API,
checks its SHA-256 and runs it. See docs/howto/groups.md for the files.
"""

import ast
import hashlib
import hmac
import json
from functools import cache
from pathlib import Path
from typing import Any

from app.agent.program import all_reduce_digest, shortened
from workers.providers.common import ssh_keys
from workers.providers.common.group_keys import public_line
from workers.providers.types import LaunchSpec

PROGRAM = "/usr/local/sbin/gpulease-group"
HOSTS_PATH = "/v1/group-hosts"
"""Where the API names the members to each VM."""
ALL_REDUCE_PATH = "/v1/agent/all-reduce"
"""Where the API serves the program of the all-reduce."""
CONFIG = "/etc/gpulease/group.json"
UNIT = "gpulease-group.service"
MESH_PORT = 29_499
"""The port at which members check that they reach each other: the one before PyTorch's."""

ALL_REDUCE_PORT = 29_498
"""The port of rank 0 at which members meet for the all-reduce."""

_HEAD = "#!/usr/bin/python3\n# gpulease: writes down who is in this VM's group. This form has no comments.\n"
_SERVICE = f"""[Unit]
Description=gpulease group: writes down who is in the group of this VM
Wants=network-online.target
After=network-online.target
[Service]
ExecStart={PROGRAM}
Restart=always
RestartSec=30
[Install]
WantedBy=multi-user.target
"""


@cache
def program() -> str:
    """The program without docstrings, annotations and comments."""
    return _HEAD + shortened(ast.parse(Path(__file__).with_name("gpulease_group.py").read_bytes()))


def files(spec: LaunchSpec) -> list[dict[str, Any]]:
    """The files that the VM needs; none for a VM that does not ask. Only root can read these files.

    Any process in the VM can read the token and the key in the user data, from the metadata service.
    """
    if spec.group is None or spec.group.hosts_url is None:
        return []
    return [
        {"path": PROGRAM, "permissions": "0700", "content": program()},
        {"path": CONFIG, "permissions": "0600", "content": json.dumps(_settings(spec), sort_keys=True)},
        {"path": f"/etc/systemd/system/{UNIT}", "permissions": "0644", "content": _SERVICE},
    ]


def commands(written: list[dict[str, Any]]) -> list[list[str]]:
    """The commands to run after `written`, the result of `files`. They do not wait for the group."""
    return [["systemctl", "enable", UNIT], ["systemctl", "start", "--no-block", UNIT]] if written else []


def _settings(spec: LaunchSpec) -> dict[str, Any]:
    assert spec.group is not None
    key = spec.group.ssh_private_key
    login = {"user": ssh_keys.USER, "port": spec.ssh_port}
    return {
        "url": spec.group.hosts_url,
        "token": spec.group.token,
        "ssh": None if key is None else {**login, "private": key, "public": public_line(key)},
        "all_reduce": None if key is None else _all_reduce(spec.group.hosts_url or "", key, spec.group.group_id),
        "mesh_port": MESH_PORT,
        "mesh_seconds": 60,
        "fast_seconds": 5,
        "slow_seconds": 30,
    }


def _all_reduce(hosts_url: str, key: str, group_id: str) -> dict[str, Any]:
    """`secret`: of the members, who have the group's key. `seconds`: after them the check has failed."""
    secret = hmac.new(key.encode(), f"all-reduce/{group_id}".encode(), hashlib.sha256).hexdigest()
    url = hosts_url.removesuffix(HOSTS_PATH) + ALL_REDUCE_PATH
    digest = all_reduce_digest()
    return {"url": url, "sha256": digest, "port": ALL_REDUCE_PORT, "secret": secret, "seconds": 60}

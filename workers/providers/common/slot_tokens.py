"""The tokens of a VM in a launch batch: one program that runs at the first boot, before the programs that need the tokens.

All VMs of a batch get the same user data, so the user data contains a secret instead of tokens. The program reads the
VM's slot from the cloud's metadata service and derives the VM's tokens as `app.domain.tokens.slot_token` does. It writes
them into the files of the other programs. A batch belongs to one tenant:
root in one VM may learn the tokens of the other VMs.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workers.providers.common import agent, group_node, host_keys
from workers.providers.types import LaunchSpec

HOST_KEYS, AGENT = "host-keys", "agent"
"""Purposes of tokens."""
PATH = "/usr/local/sbin/gpulease-slot-tokens"

_PROGRAM = """#!/usr/bin/python3
# Derives the tokens of this VM from the secret of its launch. Without an answer of the metadata service, they stay unknown.
import hashlib, hmac, time, urllib.request
SECRET = %s
FILES = %s
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
def ask(method, url, header, value):
    return OPEN(urllib.request.Request(url, method=method, headers={header: value}), timeout=5).read().decode()
def slot():
    %s
for pause in (1, 2, 4, 8, 15, 30, 0):
    try:
        name = slot()
        break
    except OSError:
        time.sleep(pause)
else:
    raise SystemExit("gpulease-slot-tokens: the metadata service does not answer")
for path, purpose in FILES.items():
    token = hmac.new(SECRET.encode(), (purpose + "/" + name).encode(), hashlib.sha256).hexdigest()
    with open(path, "r+") as file:
        text = file.read().replace("@" + purpose + "@", token)
        file.seek(0)
        file.write(text)
        file.truncate()
"""


def shared(spec: LaunchSpec) -> LaunchSpec:
    """The spec with a mark instead of each token. Raises ValueError for tokens without a secret."""
    if spec.slot_secret is None and (spec.host_keys or spec.agent or spec.group):
        raise ValueError("a launch batch needs slot_secret: its VMs share their user data")
    report, config, group = spec.host_keys, spec.agent, spec.group
    return replace(
        spec,
        host_keys=report and replace(report, token=f"@{HOST_KEYS}@"),
        agent=config and replace(config, token=f"@{AGENT}@"),
        group=group and replace(group, token=f"@{AGENT}@"),
    )


def files(spec: LaunchSpec, slot: str, delivery: agent.Delivery = agent.Delivery.EMBEDDED) -> list[dict[str, Any]]:
    """The program, for a spec of `shared` that contains tokens. `slot`: Python statements that return the VM's slot."""
    targets: Mapping[str, str] = {
        **({host_keys.PATH: HOST_KEYS} if spec.host_keys is not None else {}),
        **({group_node.CONFIG: AGENT} if group_node.files(spec) else {}),
        **({agent.CONFIG: AGENT} if spec.agent is not None and delivery is not agent.Delivery.NONE else {}),
    }
    if spec.slot_secret is None or not targets:
        return []
    text = _PROGRAM % (json.dumps(spec.slot_secret), json.dumps(targets), slot.replace("\n", "\n    "))
    return [{"path": PATH, "permissions": "0700", "content": text}]


def commands(written: list[dict[str, Any]]) -> list[list[str]]:
    """The command to run after `written`, the result of `files`, and before the programs that need the tokens."""
    return [[PATH]] if written else []

"""What the VM reads in its metadata at every boot: SSH keys, and a script that does what must be done once.

All that comes from outside stands in the script as base64, so that nothing can end its place in it.
"""

import base64
import shlex

from app.domain.boot_sizes import TOO_LONG
from workers.providers.common import agent, group_node, host_keys, slot_tokens, ssh_keys, volumes
from workers.providers.errors import InvalidSpec
from workers.providers.gcp import resource_tags
from workers.providers.types import LaunchSpec

LIMIT = 256 * 1024
"""Bytes of one value (Compute Engine guide, "About VM metadata": limits)."""

SSH_USER = ssh_keys.USER

_NAME = "http://metadata.google.internal/computeMetadata/v1/instance/name"
_SLOT = f'return ask("GET", "{_NAME}", "Metadata-Flavor", "Google")'
"""A VM of a batch is known by its name."""

_HEAD = """#!/bin/bash
# Made by gpulease; runs as root at every boot.
umask 022
put() { mkdir -p "$(dirname "$2")" && : >"$2" && chmod "$1" "$2" && base64 -d >"$2"; }
state=/var/lib/gpulease
if [ ! -e "$state/installed" ]; then
mkdir -p "$state"
"""
_READY = """touch "$state/installed"
fi
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
curl -sf -m 10 -o /dev/null -X PUT -H 'Metadata-Flavor: Google' -d 1 \\
  http://metadata.google.internal/computeMetadata/v1/instance/guest-attributes/gpulease/ready && break
sleep 2
done
"""
"""An image may have a curl of 2018, whose own repetition does not cover all errors: the script repeats by itself."""
_SCRIPT = """[ -e "$state/started" ] && exit 0
touch "$state/started"
exec "$state/startup-script"
"""
"""After the readiness, and once in the VM's life, as cloud-init does it: a script without end keeps nothing waiting."""


def items(spec: LaunchSpec) -> list[dict[str, str]]:
    """Keys and values. Raises InvalidSpec for a malformed key, or when a value is too long."""
    ssh_keys.check(spec.ssh_public_keys)
    values = {
        "ssh-keys": "\n".join(f"{SSH_USER}:{key}" for key in spec.ssh_public_keys),
        "block-project-ssh-keys": "TRUE",
        "enable-oslogin": "FALSE",
        "enable-guest-attributes": "TRUE",
        "startup-script": script(spec),
        **resource_tags.metadata(spec),
    }
    for key, value in values.items():
        size = len(value.encode())
        if size > LIMIT:
            raise InvalidSpec(f"metadata {key} has {size} bytes, at most {LIMIT} fit", code=TOO_LONG)
    return [{"key": key, "value": value} for key, value in values.items()]


def script(spec: LaunchSpec) -> str:
    """The same for the same spec."""
    parts = [_HEAD]
    if spec.startup_script:
        parts.append(_put("0700", '"$state/startup-script"', spec.startup_script))
    files = slot_tokens.files(spec, _SLOT)
    commands = [["systemctl", "daemon-reload"], *slot_tokens.commands(files)]
    if spec.host_keys is not None:
        files += host_keys.files(spec.host_keys)
        commands += host_keys.commands()
    members = group_node.files(spec)
    files += members
    commands += group_node.commands(members)
    if spec.agent is not None:
        # last, since it waits for the proof
        files += agent.files(spec.agent, agent.Delivery.EMBEDDED)
        commands += agent.commands(agent.Delivery.EMBEDDED)
    files += volumes.files(spec, lambda volume: f"/dev/disk/by-id/google-{volumes.device_name(volume)}")
    commands += volumes.commands(spec)
    parts += [_put(file.get("permissions", "0644"), shlex.quote(file["path"]), file["content"]) for file in files]
    parts += [shlex.join(command) + "\n" for command in commands if files]
    parts.append(_READY)
    if spec.startup_script:
        parts.append(_SCRIPT)
    return "".join(parts)


def _put(mode: str, path: str, content: str) -> str:
    text = base64.encodebytes(content.encode()).decode("ascii")
    return f"put {mode} {path} <<'END'\n{text}END\n"

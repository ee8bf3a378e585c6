"""What a VM reads at its first boot: one configuration of ours for cloud-init, as a message made by the standard library.

The start-up script is a file of that configuration, in base64, and its last command executes the file. cloud-init takes
the type of a part from its first characters, and lets a later part replace an earlier one. So the tenant has no part. The configuration
is one line of JSON in quoted-printable. The whole is compressed, which cloud-init undoes; the script is
compressed before its base64, which alone would compress badly.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import EmailPolicy
from typing import Any

from app.domain.boot_sizes import TOO_LONG
from workers.providers.common import agent, group_node, host_keys, slot_tokens, ssh_keys, volumes
from workers.providers.errors import InvalidSpec
from workers.providers.types import LaunchSpec

STARTUP_SCRIPT = "/var/lib/gpulease/startup-script"
"""The tenant's script, which only root reads."""

# long lines waste less of the limit; mail allows 998
_POLICY = EmailPolicy(linesep="\n", max_line_length=900)


def packed(spec: LaunchSpec, own: Mapping[str, Any], limit: int, *, device: volumes.Device, slot: str = "") -> str:
    """`render`, compressed and in base64, to be stored as JSON. `limit`: most bytes before that base64.

    The agent's program is in it if it fits; else a loader, which needs a URL; else nothing of the agent. Raises InvalidSpec for a malformed key or when it is too long.
    """
    data = b""
    for delivery in agent.deliveries(spec.agent):
        data = gzip.compress(render(spec, own, delivery, device=device, slot=slot).encode("ascii"), mtime=0)
        if len(data) <= limit:
            break
    if len(data) > limit:
        script = len((spec.startup_script or "").encode())
        msg = f"keys and start-up script make {len(data)} bytes of user data, at most {limit} fit (script: {script})"
        raise InvalidSpec(msg, code=TOO_LONG)
    return base64.b64encode(data).decode("ascii")


def render(
    spec: LaunchSpec,
    own: Mapping[str, Any],
    delivery: agent.Delivery = agent.Delivery.EMBEDDED,
    *,
    device: volumes.Device,
    slot: str = "",
) -> str:
    """The message, ASCII, the same for the same spec: SSH keys, host keys' report, agent, script, and the adapter's `own` config.

    `own` may hold `write_files` and `runcmd`. `slot`: of a batch, see `slot_tokens.files`. `device`: of a volume. Raises InvalidSpec for a malformed key.
    """
    message = EmailMessage(policy=_POLICY)
    message["MIME-Version"] = "1.0"
    message.set_content(
        _cloud_config(spec, own, delivery, slot, device), subtype="cloud-config", cte="quoted-printable"
    )
    return message.as_string()


def _cloud_config(
    spec: LaunchSpec, own: Mapping[str, Any], delivery: agent.Delivery, slot: str, device: volumes.Device
) -> str:
    """JSON is YAML; printable characters only, so that cloud-init's YAML reader takes it."""
    ssh_keys.check(spec.ssh_public_keys)
    files, commands = list(own.get("write_files", ())), list(own.get("runcmd", ()))
    tokens = slot_tokens.files(spec, slot, delivery)
    files += tokens
    commands += slot_tokens.commands(tokens)
    if spec.host_keys is not None:
        files += host_keys.files(spec.host_keys)
        commands += host_keys.commands()
    members = group_node.files(spec)
    files += members
    commands += group_node.commands(members)
    if spec.agent is not None:
        # after the others, since it waits for the proof
        files += agent.files(spec.agent, delivery)
        commands += agent.commands(delivery)
    files += volumes.files(spec, device)
    commands += volumes.commands(spec)
    if spec.startup_script:
        # last: a script without end keeps nothing of ours waiting
        files.append(_script_file(spec.startup_script))
        commands.append([STARTUP_SCRIPT])
    added = {"write_files": files, "runcmd": commands} if files else {}
    config = {**own, **added, "ssh_authorized_keys": list(spec.ssh_public_keys)}
    return "#cloud-config\n" + json.dumps(config, ensure_ascii=False, sort_keys=True) + "\n"


def _script_file(script: str) -> dict[str, Any]:
    content = base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode("ascii")
    return {"path": STARTUP_SCRIPT, "permissions": "0700", "encoding": "gz+b64", "content": content}

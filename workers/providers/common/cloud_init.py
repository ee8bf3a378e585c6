"""What a VM reads at its first boot: cloud-init's multipart format, made by the standard library.

A script is base64, the configuration is one line of JSON in quoted-printable, and the boundary is a hash. So no script,
key or name can end its part or add another. The whole is compressed, which cloud-init undoes. Text in base64 compresses badly;
for the configuration, which holds our own programs, it would cost 5 KiB.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import EmailPolicy
from typing import Any, NamedTuple

from workers.providers.common import agent, group_node, host_keys, slot_tokens, ssh_keys
from workers.providers.errors import InvalidSpec
from workers.providers.types import LaunchSpec

_SCRIPT_NAME = "startup-script"
"""cloud-init runs scripts in the order of their names: this one after its own `runcmd`, so that a script without end
keeps nothing of ours waiting."""

# long lines waste less of the limit; mail allows 998
_POLICY = EmailPolicy(linesep="\n", max_line_length=900)


def packed(spec: LaunchSpec, own: Mapping[str, Any], limit: int, *, slot: str = "") -> str:
    """`render`, compressed and in base64, to be stored as JSON. `limit`: most bytes before that base64.

    The agent's program is in it if it fits; else a loader, which needs a URL; else nothing of the agent. Raises InvalidSpec for a malformed key or when it is too long.
    """
    data = b""
    for delivery in agent.deliveries(spec.agent):
        data = gzip.compress(render(spec, own, delivery, slot=slot).encode("ascii"), mtime=0)
        if len(data) <= limit:
            break
    if len(data) > limit:
        script = len((spec.startup_script or "").encode())
        msg = f"keys and start-up script make {len(data)} bytes of user data, at most {limit} fit (script: {script})"
        raise InvalidSpec(msg, code="InvalidUserData.TooLong")
    return base64.b64encode(data).decode("ascii")


def render(
    spec: LaunchSpec,
    own: Mapping[str, Any],
    delivery: agent.Delivery = agent.Delivery.EMBEDDED,
    *,
    slot: str = "",
) -> str:
    """The multipart text, ASCII, the same for the same spec: SSH keys, host keys' report, agent, script, and the adapter's `own` config.

    `own` may hold `write_files` and `runcmd`. `slot`: of a batch, see `slot_tokens.files`. Raises InvalidSpec for a malformed key.
    """
    parts = [_Part("cloud-config", "config", _cloud_config(spec, own, delivery, slot), "quoted-printable")]
    if spec.startup_script:
        parts.append(_Part("x-shellscript", _SCRIPT_NAME, spec.startup_script.encode(), "base64"))
    return _multipart(parts)


class _Part(NamedTuple):
    subtype: str
    name: str
    body: bytes
    encoding: str


def _cloud_config(spec: LaunchSpec, own: Mapping[str, Any], delivery: agent.Delivery, slot: str) -> bytes:
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
        # last, since it waits for the proof
        files += agent.files(spec.agent, delivery)
        commands += agent.commands(delivery)
    added = {"write_files": files, "runcmd": commands} if files else {}
    config = {**own, **added, "ssh_authorized_keys": list(spec.ssh_public_keys)}
    return b"#cloud-config\n" + json.dumps(config, ensure_ascii=False, sort_keys=True).encode() + b"\n"


def _multipart(parts: list[_Part]) -> str:
    message = EmailMessage(policy=_POLICY)
    message["MIME-Version"] = "1.0"
    message.make_mixed(boundary=_boundary(parts))
    for one in parts:
        part = EmailMessage(policy=_POLICY)
        if one.encoding == "base64":
            part.set_content(one.body, maintype="text", subtype=one.subtype, cte="base64", filename=one.name)
        else:
            part.set_content(one.body.decode(), subtype=one.subtype, cte=one.encoding, filename=one.name)
        message.attach(part)
    return message.as_string()


def _boundary(parts: list[_Part]) -> str:
    """Derived, not random: the same spec must give the same parameters. Base64 lines never contain `=_`."""
    digest = hashlib.sha256(b"\0".join(part.body for part in parts)).hexdigest()
    return f"=_gpulease_{digest[:32]}"

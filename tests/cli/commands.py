"""Each command of the command line, with arguments that it accepts."""

from collections.abc import Iterator
from typing import Any

import typer

from app.cli.command import DeferredCommand
from app.cli.main import app

SUFFIX = "01m84jncx1es4vd0pkyemx4c86"
_IDS = {"lease": "lease", "leases": "lease", "budget": "budget", "tenant": "tenant", "webhook": "webhook"}
_IDS |= {"delivery": "delivery", "orphan": "orphan", "for_key": "key", "quote": "quote"}
_TEXTS = {"amount": "5", "month": "2026-11", "receiver": "https://example.org/x", "limits": "gpu=1", "account": "sim"}
_TEXTS |= {
    "model": "llama-3-8b",
    "named": "train",
    "source": "train:/x",
    "destination": "/x",
    "label": "a=b",
    "volume": "data:/data",
}
_TEXTS |= {
    "max_price": "1",
    "max_cost": "1",
    "expires": "2d",
    "created_after": "2026-11-01T00:00:00Z",
    "by": "provider",
}
_TEXTS |= {
    "warn_before": "1h",
    "cidr": "192.0.2.0/24",
    "thresholds": "50",
    "until": "2099-01-01T00:00:00Z",
    "since": "2026-11-01",
}
_TEXTS |= {"created_before": "2026-11-01T00:00:00Z", "remove_label": "a", "parameters": "8B"}
_OTHERS = {"size": "2", "by": "1h", "duration": "1h", "wish": "stop", "file": "/dev/null"}
_MORE = {
    "lease create": ["--gpu", "T4", "--ttl", "1h", "--yes", "--no-ssh-key"],
    "lease plan": ["--gpu", "T4", "--ttl", "1h"],
    "quote": ["--gpu", "T4", "--ttl", "1h", "--no-ssh-key"],
    "group plan": ["--gpu", "T4", "--ttl", "1h", "--size", "2", "--no-ssh-key"],
    "group create": ["--gpu", "T4", "--ttl", "1h", "--size", "2", "--no-ssh-key"],
    "lease update": ["--name", "x"],
    "lease keep": ["--for", "1h"],
    "lease release": ["--yes"],
    "volume create": ["--size", "1", "--account", "sim", "--region", "r", "--zone", "z"],
    "volume delete": ["--yes"],
    "tenant update": ["--name", "x"],
    "tenant idle-floor set": ["--idle-after", "1h"],
    "budget create": ["--period", "month"],
    "budget update": ["--amount", "7"],
    "webhooks update": ["--description", "x"],
    "webhooks listen": ["--forward-to", "http://127.0.0.1:1/hook"],
    "size": ["--ttl", "1h"],
    "ssh": ["--print"],
    "attach": ["--print"],
    "lease logs": ["--print"],
    "group ssh": ["--print"],
    "cp": ["--print"],
    "lease watch": ["--until", "active"],
}
_MORE |= {name: _MORE[f"lease {name}"] for name in ("create", "release")}
_NO_REQUESTS = {"up", "deadman", "mcp"}
"Programs of their own."


def leaves(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, DeferredCommand]]:
    for name, inner in group.commands.items():
        if isinstance(inner, DeferredCommand):
            yield " ".join((*words, name)), inner
        elif hasattr(inner, "commands"):
            yield from leaves(inner, (*words, name))


COMMANDS = {
    name: found
    for name, found in leaves(typer.main.get_command(app))
    if name not in _NO_REQUESTS and not name.startswith("profile ")
}


def texts(found: DeferredCommand) -> list[Any]:
    """The parameters of a command that are any text."""
    shared = {"url", "key", "profile", "form", "as_json"}
    kinds = {str, list[str], str | None, list[str] | None}
    return [p for p in found.complete.params if p.name not in shared and p.type_descriptor.annotation in kinds]


def benign(name: str, parameter: Any) -> str:
    if parameter.name == "reference":
        kind = {"key": "key", "volume": "vol"}.get(name.partition(" ")[0], "sshkey")
        return f"{kind}_{SUFFIX}"
    if parameter.name == "name" and name.startswith("group"):
        return f"group_{SUFFIX}"
    noun = _IDS.get(parameter.name)
    return f"{noun}_{SUFFIX}" if noun else _TEXTS.get(parameter.name, "x")


def arguments(name: str, changed: Any, value: str) -> list[str]:
    """The command with all that it needs, and with this value for one parameter."""
    words = [*name.split(), *_MORE.get(name, ())]
    rest = []
    for parameter in COMMANDS[name].complete.params:
        mine = parameter is changed
        if parameter.param_type_name == "argument":
            if parameter.required or mine or parameter.name in {"leases", "model"} or name.endswith("extend"):
                text = value if mine else _OTHERS.get(parameter.name) or benign(name, parameter)
                rest.append(text)
        elif mine:
            words.append(f"{parameter.opts[0]}={value}")
    return [*words, "--", *rest]

"""Compares `cloudsim.user_data.first_boot` with cloud-init: `make cloud-init SOURCE=/path/to/cloud-init`.

SOURCE is the folder that contains the package `cloudinit`: a checkout of github.com/canonical/cloud-init, or
`usr/lib/python3/dist-packages` of a distribution's package. Both read the user data of the adapters that use cloud-init, and
texts of each type that cloud-init knows, alone and as parts. Exits with 1 when they differ.
"""

import base64
import logging
import sys
import tempfile
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

from cloudsim.user_data import FirstBoot, first_boot
from tests.workers.providers.samples import GROUP, spec
from tests.workers.providers.test_first_boot import ADAPTERS, FOREIGN, SCRIPTS, asked, ours
from workers.providers.common import slot_tokens

_SCRIPTS = (*FOREIGN, *(script for script, _ in SCRIPTS.values()))


def main(source: str) -> int:
    """Prints what differs and the number of comparisons."""
    logging.disable()
    sys.path.insert(0, source)
    # its configuration files, of which none is read here
    sys.modules["configobj"] = ModuleType("configobj")
    sys.modules["configobj"].__dict__["ConfigObj"] = dict
    examples = {**_rendered(), **_bare()}
    differences = [name for name, text in examples.items() if _ours(text) != _theirs(text)]
    version = import_module("cloudinit.version").version_string()
    wrong = [f"differs: {name!r}" for name in differences] + _replaced()
    sys.stdout.write("\n".join([*wrong, f"cloud-init {version}: {len(examples)} user data, {len(wrong)} findings", ""]))
    return 1 if wrong else 0


def _rendered() -> dict[str, str]:
    """What the adapters render."""
    found = {}
    for provider, adapter in ADAPTERS.items():
        shared = slot_tokens.shared(asked("#!/bin/sh\n", slot_secret="ab" * 32, group=GROUP))
        found[f"{provider} batch"] = adapter.packed(shared)
        found |= {f"{provider} {script[:60]}": adapter.packed(asked(script)) for script in _SCRIPTS}
        found[f"{provider} plain"] = adapter.packed(spec(startup_script=None))
    return found


def _bare() -> dict[str, str]:
    """The texts themselves, and as a second part that is named a shell script."""
    found = {}
    for script in FOREIGN:
        parts = MIMEMultipart(_subparts=[MIMEText('#cloud-config\n{"runcmd": ["a"]}\n', "cloud-config")])
        parts.attach(MIMEText(script, "x-shellscript"))
        found |= {f"bare {script}": _encoded(script), f"part {script}": _encoded(parts.as_string())}
    return found


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _replaced() -> list[str]:
    """Scripts that change what cloud-init itself makes of the rest."""
    plain = {provider: ours(first_boot(adapter.packed(asked(None)))) for provider, adapter in ADAPTERS.items()}
    wrong = []
    for provider, adapter in ADAPTERS.items():
        for script in FOREIGN:
            boot = _theirs(adapter.packed(asked(script)))
            if boot is None or ours(FirstBoot(*boot)) != plain[provider] or boot[1:] != ({}, []):
                wrong.append(f"replaces parts of gpulease at {provider}: {script!r}")
    return wrong


_Read = tuple[dict[str, Any], dict[str, bytes], list[str]] | None
"""Configuration, scripts by name, types of further parts. None: an error ends the reading."""


def _ours(encoded: str) -> _Read:
    try:
        boot = first_boot(encoded)
    except ValueError:
        return None
    return boot.config, boot.scripts, sorted(boot.others)


def _theirs(encoded: str) -> _Read:
    """cloud-init's own reader and its handlers of configurations and scripts, in a folder of their own."""
    handlers, reader = import_module("cloudinit.handlers"), import_module("cloudinit.user_data")
    reader.__dict__["read_file_or_url"] = _unreachable
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        paths: Any = SimpleNamespace(
            get_ipath=lambda name: str(folder / name),
            get_ipath_cur=lambda name="data": str(folder / name),
            get_cpath=lambda name=None: str(folder / (name or "cloud")),
            get_runpath=lambda name=None: str(folder / (name or "run")),
            cloud_dir=str(folder),
        )
        known = [
            import_module("cloudinit.handlers.cloud_config").CloudConfigPartHandler(paths),
            import_module("cloudinit.handlers.shell_script").ShellScriptPartHandler(paths),
        ]
        by_type = {kind: handler for handler in known for kind in handler.list_types() if "jsonp" not in kind}
        others: list[str] = []
        try:
            message = reader.UserDataProcessor(paths).process(base64.b64decode(encoded))
        except Exception:  # noqa: BLE001 - 22.4 raises this class itself
            return None

        def each(_data: object, filename: str, payload: Any, headers: Any) -> None:
            kind = headers["Content-Type"]
            if kind in by_type:
                handlers.run_part(by_type[kind], None, filename, payload, "once-per-instance", headers)
            else:
                others.append(kind)

        for handler in known:
            handlers.call_begin(handler, None, "once-per-instance")
        handlers.walk(message, each, None)
        for handler in known:
            handlers.call_end(handler, None, "once-per-instance")
        written = folder / "cloud_config"
        config = yaml.safe_load(written.read_text()) if written.exists() else None
        scripts = {path.name: path.read_bytes() for path in (folder / "scripts").glob("*")}
        return config or {}, scripts, sorted(others)


def _unreachable(*_arguments: object, **_options: object) -> None:
    raise OSError("no URL answers")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

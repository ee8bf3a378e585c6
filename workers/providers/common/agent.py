"""The agent that proves and reports a VM's GPUs: its files in the user data, and the command that starts it.

The command returns when the agent has taken its proof, or after a limit: a start-up script runs afterwards. Whatever
happens to the agent, the boot goes on. Where the program does not fit into the user data, a loader fetches it from the
API and checks its SHA-256.
"""

import json
from enum import Enum
from typing import Any

from app.agent import program
from workers.providers.types import AgentConfig

PROGRAM = "/usr/local/sbin/gpulease-agent"
CONFIG = "/etc/gpulease/agent.json"
UNIT = "gpulease-agent.service"
PATH = "/v1/agent/program"
"""Where the API serves the program."""

_SERVICE = f"""[Unit]
Description=gpulease agent: reports the GPUs of this VM
Wants=network-online.target
After=network-online.target
[Service]
Type=notify
ExecStart={PROGRAM} run
TimeoutStartSec=150
Restart=on-failure
RestartSec=60
Nice=10
[Install]
WantedBy=multi-user.target
"""

_LOADER = f"""#!/usr/bin/python3
# Fetches gpulease's agent, checks that it is the program of this launch, and replaces itself with it.
import hashlib, os, sys, time, urllib.request
URL, DIGEST = %s, %s
for pause in (1, 2, 4, 8, 0):
    try:
        text = urllib.request.urlopen(URL, timeout=5).read(1 << 20)
    except OSError:
        time.sleep(pause)
        continue
    if hashlib.sha256(text).hexdigest() != DIGEST:
        break
    with open(os.open("{PROGRAM}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o700), "wb") as file:
        file.write(text)
    os.replace("{PROGRAM}.new", "{PROGRAM}")
    os.execv("{PROGRAM}", ["{PROGRAM}"] + sys.argv[1:])
sys.exit("gpulease-agent: the program could not be fetched from " + URL)
"""


class Delivery(Enum):
    """How the program comes into the VM."""

    EMBEDDED = "in the user data"
    FETCHED = "from the API, by a loader in the user data"
    NONE = "not at all"


def deliveries(config: AgentConfig | None) -> tuple[Delivery, ...]:
    """From the best to the last one: the first that fits into the user data is taken. A launch never fails for the agent."""
    if config is None:
        return (Delivery.NONE,)
    fetched = () if config.url is None else (Delivery.FETCHED,)
    return (Delivery.EMBEDDED, *fetched, Delivery.NONE)


def files(config: AgentConfig, delivery: Delivery) -> list[dict[str, Any]]:
    """The files that the VM needs. Only root can read them.

    Any process in the VM can read the token in the user data, from the metadata service.
    """
    if delivery is Delivery.NONE:
        return []
    text = program.short(benchmark=config.benchmark) if delivery is Delivery.EMBEDDED else loader(config)
    return [
        {"path": PROGRAM, "permissions": "0700", "content": text},
        {"path": CONFIG, "permissions": "0600", "content": json.dumps(_settings(config), sort_keys=True)},
        {"path": f"/etc/systemd/system/{UNIT}", "permissions": "0644", "content": _SERVICE},
    ]


def loader(config: AgentConfig) -> str:
    """The program that fetches the agent. The URL and the digest are JSON strings, which are Python literals."""
    return _LOADER % (json.dumps(f"{config.url}{PATH}"), json.dumps(program.digest()))


def commands(delivery: Delivery) -> list[list[str]]:
    """The commands to run once the files are written. The second waits until the proof has been taken."""
    return [] if delivery is Delivery.NONE else [["systemctl", "enable", UNIT], ["systemctl", "start", UNIT]]


def _settings(config: AgentConfig) -> dict[str, Any]:
    return {
        "url": config.url,
        "token": config.token,
        "serial": config.serial,
        "benchmark": config.benchmark,
        "interval": config.sample_seconds,
    }

"""What root in VMs can send: reports that are not true, with every secret that the user data of these VMs holds."""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import httpx

from app.domain.tokens import slot_token
from cloudsim.testing import NO_TLS
from cloudsim.user_data import first_boot
from tests.e2e.cloud import Json

_SLOTS = 4
"""A secret of a create call opens the tokens of so many of its VMs."""
_TOKEN = re.compile(r"\b[0-9a-f]{64}\b")
_SECRET = re.compile(r'SECRET = "([0-9a-f]{64})"')
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"


class Forger:
    """`mark`: agent and boot in each report, by which its traces are found. `sent`: reports by their answer."""

    def __init__(self, api_url: str, mark: str, *, timeout: float = 10.0) -> None:
        self._http = httpx.Client(base_url=api_url, timeout=timeout, verify=NO_TLS)
        self._refused: set[tuple[str, str]] = set()
        self._mark = mark
        self.sent: Counter[str] = Counter()

    def close(self) -> None:
        """Ends its connections."""
        self._http.close()

    def report(self, launches: Iterable[Json], uuids: Sequence[str], *, broken: bool) -> None:
        """Reports with each token of the VMs. `launches`: as `Cloud.launches` shows them. `uuids`: the GPUs that it names.

        `broken`: the GPUs are, in proofs and samples. Otherwise they are sound and idle. Raises httpx.HTTPError.
        """
        report = {"version": 1, "agent": self._mark, "boot_id": self._mark}
        now = time.time()
        gpus = [
            {"uuid": uuid, "memory_mib": 23028, "remap_failed": broken, "recovery_action": "none"} for uuid in uuids
        ]
        shown = [{**gpu, "matmul": "failed" if broken else "ok", "model": "NVIDIA A10G"} for gpu in gpus]
        idle = [{**gpu, "utilization": 0} for gpu in gpus]
        proof = {**report, "at": now, "gpus": shown}
        xids = [{"code": 79, "gpu": None, "at": None}] if broken else []
        samples = {**report, "samples": [{"at": now - 1 + n, "gpus": idle} for n in range(2)], "xids": xids}
        for launch in launches:
            agents, hosts = _tokens(str(launch["spec"]["user_data"]))
            for token in sorted(agents):
                self._send("agent/proof", token, proof)
                self._send("agent/samples", token, samples)
            for token in sorted(hosts):
                self._send("host-keys", token, {"keys": [_KEY]})

    def _send(self, path: str, token: str, body: dict[str, Any]) -> None:
        if (path, token) in self._refused:
            return
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        answer = self._http.post(f"/v1/{path}", content=json.dumps(body), headers=headers)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._refused.add((path, token))
        self.sent[f"{path} {answer.status_code}"] += 1


def _tokens(user_data: str) -> tuple[set[str], set[str]]:
    """Tokens of agents and of host keys. A token of user data may be either."""
    files = first_boot(user_data).config.get("write_files", [])
    text = "\n".join(str(file["content"]) for file in files)
    shared = _SECRET.findall(text)
    if not shared:
        found = set(_TOKEN.findall(text))
        return found, found
    return (
        {slot_token(secret, "agent", slot) for secret in shared for slot in range(_SLOTS)},
        {slot_token(secret, "host-keys", slot) for secret in shared for slot in range(_SLOTS)},
    )

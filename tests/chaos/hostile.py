"""A hostile tenant in the storm: it reports what is not true with every secret of its VMs, and switches them off."""

import json
import random
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import psycopg

from app.domain.tags import TENANT
from app.domain.tokens import slot_token
from bench.three_clouds import Installation
from cloudsim.user_data import first_boot
from tests.e2e.cloud import Json
from tests.e2e.people import Tenant

_PAUSE = 1.0
_LEASES = 4
_WISH: Json = {
    "instance_types": ["g5.xlarge"],
    "providers": ["aws"],
    "market": "on_demand",
    "ttl_seconds": 3600,
    "on_interruption": "replace",
    "on_gpu_failure": "replace",
}
_TOKEN = re.compile(r"\b[0-9a-f]{64}\b")
_SECRET = re.compile(r'SECRET = "([0-9a-f]{64})"')
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
_SHARED = """
    SELECT format('%%s %%s %%s is set aside for all: %%s', zone, instance_type, market, cool_reason) FROM offering
    WHERE cool_reason = 'gpu_check_failed' OR (cool_reason = 'interrupted' AND market = 'on_demand')
    UNION ALL
    SELECT format('%%s has a VM that was rejected for known bad GPUs', lease_id) FROM event
    WHERE tenant_id <> %(tenant)s AND data::text LIKE '%%known_bad_gpu%%'
    UNION ALL
    SELECT format('the GPU %%s is the word of %%s', uuid, tenant_id) FROM bad_gpu WHERE tenant_id <> %(tenant)s
    """
"""What others would feel. No VM of theirs has broken GPUs, and no cloud takes an on-demand VM back."""


class Hostile:
    """`changed`: what it has changed for others. `sent`: its reports by their answer."""

    def __init__(self, installation: Installation, tenant: Tenant, api_url: str, seed: int) -> None:
        self._installation = installation
        self._tenant = tenant
        self._random = random.Random(f"hostile {seed}")
        self._http = httpx.Client(base_url=api_url, timeout=10)
        self._refused: set[tuple[str, str]] = set()
        self.changed: set[str] = set()
        self.sent: dict[str, int] = {}

    @contextmanager
    def acting(self) -> Iterator[None]:
        """For the time of the block. Afterwards its leases end."""
        over = threading.Event()

        def act() -> None:
            while not over.wait(_PAUSE):
                with suppress(httpx.HTTPError):
                    self._act()
                with suppress(psycopg.Error):  # away, or being restored
                    self._look()

        with ThreadPoolExecutor(1) as acting:
            acted = acting.submit(act)
            try:
                yield
            finally:
                over.set()
                acted.result()
        self._tenant.release_all()
        self._look()

    def _act(self) -> None:
        for _ in range(_LEASES - len(self._tenant.leases("queued", "provisioning", "booting", "active"))):
            self._tenant.ask(_WISH)
        launches = self._installation.cloud.launches(TENANT, self._tenant.id)
        for launch in launches:
            self._report(str(launch["spec"]["user_data"]))
        if launches and self._random.random() < 0.1:
            self._installation.cloud.stop(self._random.choice(launches)["id"])

    def _report(self, user_data: str) -> None:
        files = first_boot(user_data).config.get("write_files", [])
        text = "\n".join(str(file["content"]) for file in files)
        agents = hosts = set(_TOKEN.findall(text))
        shared = _SECRET.findall(text)
        if shared:
            agents = {slot_token(secret, "agent", slot) for secret in shared for slot in range(_LEASES)}
            hosts = {slot_token(secret, "host-keys", slot) for secret in shared for slot in range(_LEASES)}
        gpu = {"uuid": self._random.choice(["GPU-seen-once", "GPU-invented"]), "remap_failed": True}
        report = {"version": 1, "agent": "hostile", "boot_id": "hostile"}
        now = time.time()
        proof = {**report, "at": now, "gpus": [{**gpu, "matmul": "failed", "model": "NVIDIA A10G"}]}
        samples = {**report, "samples": [{"at": now, "gpus": [gpu]}], "xids": [{"code": 79, "gpu": None, "at": None}]}
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
        what = f"{path} {answer.status_code}"
        self.sent[what] = self.sent.get(what, 0) + 1

    def _look(self) -> None:
        with psycopg.connect(self._installation.database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            rows = connection.execute(_SHARED.encode(), {"tenant": self._tenant.id}).fetchall()
        self.changed |= {str(row[0]) for row in rows}

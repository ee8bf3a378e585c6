"""A hostile tenant in the storm: it reports what is not true with every secret of its VMs, and switches them off."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import psycopg

from app.domain.tags import TENANT
from bench.three_clouds import Installation
from tests.chaos.volume_thief import VolumeThief
from tests.e2e.cloud import Json
from tests.e2e.forgery import Forger
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

    def __init__(self, installation: Installation, tenant: Tenant, api_url: str, seed: int, thief: VolumeThief) -> None:
        self._installation = installation
        self._tenant = tenant
        self._thief = thief
        self._random = random.Random(f"hostile {seed}")
        self._forger = Forger(api_url, "hostile")
        self.changed: set[str] = set()
        self.sent = self._forger.sent

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
        self._thief.end()
        self._look()
        self.changed |= self._thief.taken

    def _act(self) -> None:
        for _ in range(_LEASES - len(self._tenant.leases("queued", "provisioning", "booting", "active"))):
            self._tenant.ask(_WISH)
        launches = self._installation.cloud.launches(TENANT, self._tenant.id)
        for launch in launches:
            uuid = self._random.choice(["GPU-seen-once", "GPU-invented"])
            self._forger.report([launch], [uuid], broken=True)
        self._thief.act(_WISH)
        if launches and self._random.random() < 0.1:
            self._installation.cloud.stop(self._random.choice(launches)["id"])

    def _look(self) -> None:
        with psycopg.connect(self._installation.database_url) as connection:
            connection.execute("SET ROLE gpulease_worker")
            rows = connection.execute(_SHARED.encode(), {"tenant": self._tenant.id}).fetchall()
        self.changed |= {str(row[0]) for row in rows}

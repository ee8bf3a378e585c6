"""What a hostile tenant does with volumes: it tries those of others, and its own ones twice at a time."""

import random
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import httpx

from tests.e2e.cloud import Json
from tests.e2e.people import Tenant

_OWN = "own"
_KIND = ("aws", "g5.xlarge", "on_demand")


class VolumeThief:
    """`taken`: requests about volumes of others that the API accepted. `victims`: their names by id. `answers`: to its requests."""

    def __init__(self, tenant: Tenant, victims: Mapping[str, str], seed: int) -> None:
        self._tenant = tenant
        self._victims = victims
        self._random = random.Random(f"thief {seed}")
        self.deleted: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.taken: set[str] = set()

    def act(self, wish: Json) -> None:
        """One try of each kind. Raises httpx.HTTPError while the API is away."""
        self._try_others(wish)
        place = self._tenant.volume_place(*_KIND)
        mine = [volume for volume in self._tenant.volumes("available") if volume["name"] == _OWN]
        if not mine:
            body = {"name": _OWN, "size_gib": 10, **place}
            self._tenant.http.post("/v1/volumes", json=body)  # taken while the earlier one is being deleted
        for volume in mine:
            for _ in range(2):
                answer = self._tenant.ask({**wish, "volumes": [{"name": _OWN, "path": "/data"}]})
                self.answers[f"own volumes mounted {answer.status_code}"] += 1
            if self._random.random() < 0.3:
                self.deleted.add(volume["id"])
                self._tenant.http.delete(f"/v1/volumes/{volume['id']}")

    def end(self) -> None:
        """Its volumes are deleted once its leases have ended."""
        with suppress(httpx.HTTPError):
            self._tenant.delete_volumes()

    def _try_others(self, wish: Json) -> None:
        victims = sorted(self._victims.items())
        if not victims:
            return
        volume_id, name = self._random.choice(victims)
        path = f"/v1/volumes/{volume_id}"
        tries = {
            "read": lambda: self._tenant.http.get(path),
            "deleted": lambda: self._tenant.http.delete(path),
            "mounted": lambda: self._tenant.ask({**wish, "volumes": [{"name": name, "path": "/data"}]}),
        }
        answers = {what: ask() for what, ask in tries.items()}
        self.answers.update(f"others' volumes {what} {answer.status_code}" for what, answer in answers.items())
        self.taken |= {f"{volume_id} is {what}" for what, answer in answers.items() if answer.is_success}

"""Users with volumes in the storm: leases one after the other mount a volume, read its file and write another text."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TypeVar

import httpx

from bench.three_clouds import Installation
from tests.chaos.course import Course
from tests.chaos.money import TERM_SECONDS
from tests.e2e.cloud import Json
from tests.e2e.people import TURNED_AWAY, Tenant
from tests.e2e.truth import own_id

T = TypeVar("T")
_TYPES = (("aws", "g5.xlarge"), ("gcp", "g2-standard-4"), ("azure", "Standard_NC24ads_A100_v4"))
_PAUSE = 0.5
_LOST_SECONDS = 45.0
"""A lease that does not exist for so long was lost. Until then the operator may have it rebuilt."""
_LEASES = (2, 4)
"""Of a volume, until it is deleted."""
_INTERRUPTED = 0.5
_ENDED = ("released", "failed")
_FILE = "/data/checkpoint"


class _OverError(Exception):
    """The storm is over."""


class _GoneError(Exception):
    """The database has lost the volume, or the volume has no disk any more."""


class VolumeUsers:
    """`wrong`: files that a lease should have had. `figures`: how much there was of everything."""

    def __init__(
        self, installation: Installation, tenant: Tenant, course: Course, seed: int, may_ask: threading.Event
    ) -> None:
        self._cloud = installation.cloud
        self._tenant = tenant
        self._course = course
        self._seed = seed
        self._may_ask = may_ask
        self._over = threading.Event()
        self._texts: dict[str, str] = {}
        self._missing: dict[str, float] = {}
        self.wrong: set[str] = set()
        self.figures: Counter[str] = Counter()

    @contextmanager
    def acting(self, users: int) -> Iterator[None]:
        """For the time of the block. Leases that are active then, and their volumes, stay."""
        self._places = {provider: self._tenant.volume_place(provider, kind) for provider, kind in _TYPES}
        with ThreadPoolExecutor(users) as pool:
            lives = [pool.submit(self._live, number) for number in range(users)]
            try:
                yield
            finally:
                self._over.set()
                for life in lives:
                    life.result()

    def check_active(self) -> None:
        """When everything is quiet: what active leases read now."""
        for lease in self._tenant.leases("active"):
            volumes = {volume["id"] for volume in self._tenant.volumes() if volume["lease_id"] == lease["id"]}
            for volume_id in volumes & self._texts.keys():
                self._read(volume_id, lease["id"], self._cloud.vm(own_id(lease)))

    def _live(self, number: int) -> None:
        chance = random.Random(f"volumes {self._seed} {number}")
        volumes = 0
        while not self._over.is_set():
            with suppress(_OverError, _GoneError):
                self._use(chance, f"data-{number}-{volumes}", *_TYPES[(number + volumes) % len(_TYPES)])
            volumes += 1

    def _use(self, chance: random.Random, name: str, provider: str, kind: str) -> None:
        volume_id = self._create(name, provider)
        wish = {
            "instance_types": [kind],
            "providers": [provider],
            "on_interruption": "replace",
            "wait_seconds": 60,
            "ttl_seconds": TERM_SECONDS,
            "volumes": [{"name": name, "path": "/data"}],
        }
        for number in range(chance.randint(*_LEASES)):
            wish["market"] = chance.choice(("spot", "spot_first", "on_demand"))
            self._lease(chance, volume_id, {**wish, "name": f"{name}-{number}"})
        self._delete(volume_id)

    def _create(self, name: str, provider: str) -> str:
        place = self._places[provider]
        volume_id = str(self._accepted(lambda: self._tenant.ask_for_volume(name, place))["id"])
        self._course.volumes[volume_id] = name
        self.figures["volumes"] += 1

        def state() -> str | None:
            answer = self._tenant.http.get(f"/v1/volumes/{volume_id}")
            if answer.status_code == httpx.codes.NOT_FOUND:
                raise _GoneError
            state = str(answer.raise_for_status().json()["state"])
            return None if state == "creating" else state

        if self._until(state) != "available":
            raise _GoneError
        return volume_id

    def _lease(self, chance: random.Random, volume_id: str, wish: Json) -> None:
        """From its request to its end."""
        self._until(lambda: self._may_ask.is_set() or None)
        lease_id = str(self._accepted(lambda: self._tenant.ask(wish, f"{self._seed}-{wish['name']}"))["id"])
        self._course.made.append(lease_id)
        self._course.extra.append(lease_id)
        self.figures["leases with volumes"] += 1
        vm = self._vm(lease_id)
        if vm is not None:
            self._read_and_write(volume_id, lease_id, vm)
            if vm["market"] == "spot" and chance.random() < _INTERRUPTED:
                with suppress(httpx.HTTPStatusError):  # it has ended meanwhile
                    self._cloud.interrupt(vm["id"], notice_seconds=2.0, provider=vm["provider"])
                    self._course.stopped.add(vm["id"])
                following = self._vm(lease_id, after=vm["id"])
                if following is not None:
                    self.figures["replacement VMs with volumes"] += 1
                    self._read_and_write(volume_id, lease_id, following)
        self._course.cancelled.add(lease_id)
        self._until(lambda: self._done(lambda: self._tenant.http.delete(f"/v1/leases/{lease_id}")))
        self._until(lambda: self._look(lease_id, lambda _lease: None))

    def _delete(self, volume_id: str) -> None:
        self._course.volumes_deleted.add(volume_id)
        self._until(lambda: self._done(lambda: self._tenant.http.delete(f"/v1/volumes/{volume_id}")))

        def gone() -> bool | None:
            answer = self._tenant.http.get(f"/v1/volumes/{volume_id}")
            is_open = answer.is_success and answer.json()["state"] in ("creating", "available", "deleting")
            return None if is_open or answer.is_server_error else True

        self._until(gone)
        self.figures["volumes deleted"] += 1

    # --- files --------------------------------------------------------------------------------------------

    def _read_and_write(self, volume_id: str, lease_id: str, vm: Json) -> None:
        self._read(volume_id, lease_id, vm)
        text = f"{lease_id} at {vm['id']}"
        if self._cloud.write_file(vm, _FILE, text):
            self._texts[volume_id] = text
            self.figures["files written"] += 1

    def _read(self, volume_id: str, lease_id: str, vm: Json) -> None:
        text, wanted = self._cloud.read_file(vm, _FILE), self._texts.get(volume_id)
        if text == wanted:
            self.figures["files read"] += wanted is not None
        elif self._is_active(lease_id, vm):
            self.wrong.add(f"{vm['id']} of {lease_id} reads {text!r} on {volume_id}, and {wanted!r} was written")

    def _is_active(self, lease_id: str, vm: Json) -> bool:
        """Whether the lease still has this VM, which runs. Unknown while the API is away."""
        with suppress(httpx.HTTPError):
            lease, seen = self._tenant.lease(lease_id), self._cloud.vm(vm["id"])
            is_its = lease["state"] == "active" and own_id(lease) == vm["id"]
            return is_its and seen["state"] == "running" and not seen["ending_at"]
        return False

    # --- answers ------------------------------------------------------------------------------------------

    def _vm(self, lease_id: str, after: str = "") -> Json | None:
        """The VM of the lease once it is active, another one than `after`. None: the lease has ended, or is lost."""

        def active(lease: Json) -> Json | None:
            is_new = lease["state"] == "active" and own_id(lease) != after
            return self._cloud.vm(own_id(lease)) if is_new else None

        return self._until(lambda: self._look(lease_id, active)) or None

    def _look(self, lease_id: str, see: Callable[[Json], Json | None]) -> Json | None:
        """What `see` makes of the lease; empty when it has ended or is lost."""
        answer = self._tenant.http.get(f"/v1/leases/{lease_id}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            since = self._missing.setdefault(lease_id, time.monotonic())
            return {} if time.monotonic() > since + _LOST_SECONDS else None
        self._missing.pop(lease_id, None)
        lease = answer.raise_for_status().json()
        return {} if lease["state"] in _ENDED else see(lease)

    def _accepted(self, ask: Callable[[], httpx.Response]) -> Json:
        """The answer to a request, sent again under its key while it is refused for now. Raises _GoneError."""

        def answer() -> Json | None:
            response = ask()
            if response.is_success:
                return dict(response.json())
            if response.status_code in TURNED_AWAY or response.is_server_error:
                return None
            raise _GoneError

        return self._until(answer)

    @staticmethod
    def _done(ask: Callable[[], httpx.Response]) -> bool | None:
        answer = ask()
        return answer.is_success or answer.status_code == httpx.codes.NOT_FOUND or None

    def _until(self, ask: Callable[[], T | None]) -> T:
        """The first answer that is not None. Raises _OverError."""
        while not self._over.wait(_PAUSE):
            with suppress(httpx.HTTPError):
                answer = ask()
                if answer is not None:
                    return answer
        raise _OverError

"""The simulated cloud from outside: ground truth, and what a real cloud would do by itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import httpx

from app.domain.tags import LEASE, TENANT
from cloudsim.testing import NO_TLS
from tests.e2e.stack import PATIENCE

Json = dict[str, Any]

AWS = "aws"
ACCESS_KEY = "AKIALOCALSTACKSIM001"


class Cloud:
    """The controls below `/_sim`."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=PATIENCE, verify=NO_TLS)
        self.planted: set[str] = set()
        """Ids of the VMs that no launch of gpulease made."""
        self.vanished: set[str] = set()
        """Ids of the disks that somebody deleted behind our back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def vms(self, tag: str | None = None, value: str = "", *, alive: bool | None = None) -> list[Json]:
        """VMs, ended ones included unless `alive` says otherwise; with `tag` only those that carry it with `value`."""
        params = {} if tag is None else {"tag": f"{tag}:{value}"}
        if alive is not None:
            params["alive"] = str(alive).lower()
        return self._items("/_sim/instances", params)

    def vms_of(self, lease_id: str) -> list[Json]:
        """Every VM that a lease ever had."""
        return self.vms(LEASE, lease_id)

    def launches(self, tag: str, value: str) -> list[Json]:
        """What living VMs with this tag were launched with: `id` and `spec`, with the user data that root in the VM reads."""
        return self._items("/_sim/launches", {"tag": f"{tag}:{value}", "alive": "true"})

    def vm(self, instance_id: str) -> Json:
        (vm,) = self._items("/_sim/instances", {"id": instance_id})
        return vm

    def resources_of(self, lease_id: str) -> list[Json]:
        """Volumes, network interfaces and addresses of a lease."""
        return self._items("/_sim/resources", {"tag": f"{LEASE}:{lease_id}"})

    def resources_of_tenant(self, tenant_id: str) -> list[Json]:
        return self._items("/_sim/resources", {"tag": f"{TENANT}:{tenant_id}"})

    def disks(self) -> list[Json]:
        """Disks that were made without a VM, deleted ones included, each with the VMs that have had it."""
        return self._items("/_sim/disks", {})

    def delete_disk(self, disk: Json) -> None:
        """Somebody deletes a disk behind our back."""
        self.vanished.add(str(disk["id"]))
        self._post("/_sim/disks/delete", {"provider": disk["provider"], "id": disk["id"]})

    def write_file(self, vm: Json, path: str, text: str) -> bool:
        """Whether a program in the VM can write this file: its path is on a volume, and the VM runs."""
        body = {"provider": vm["provider"], "instance_id": vm["id"], "path": path, "text": text}
        answer = self._http.put("/_sim/files", json=body)
        return answer.is_success and bool(answer.json()["written"])

    def read_file(self, vm: Json, path: str) -> str | None:
        """What a program in the VM reads there. None: there is no such file, or the VM does not run."""
        params = {"provider": vm["provider"], "instance_id": vm["id"], "path": path}
        answer = self._http.get("/_sim/files", params=params)
        return answer.json()["text"] if answer.is_success else None

    def calls(self, operation: str) -> int:
        """How often an operation was called so far."""
        counts: dict[str, dict[str, int]] = self._http.get("/_sim/calls").raise_for_status().json()
        return counts[AWS].get(operation, 0)

    @contextmanager
    def capacity(self, available: int, **place: str) -> Iterator[None]:
        """Only `available` more VMs at a place; no limit afterwards."""
        self.set_capacity(available, **place)
        try:
            yield
        finally:
            self.set_capacity(None, **place)

    def set_capacity(self, available: int | None, **place: str) -> None:
        """So many more VMs at a place from now on; None: without limit. At AWS, unless the place says `provider`."""
        self._put("/_sim/capacity", {"provider": AWS, **place, "available": available})

    def move_spot_prices(self, provider: str, factor: float, region: str | None = None) -> None:
        """Spot prices become their list prices times `factor`, in one region or in all of a provider."""
        place = {} if region is None else {"region": region}
        self._put("/_sim/spot-prices", {"provider": provider, "factor": str(factor), **place})

    def copy(self, vm: Json) -> str:
        """Somebody starts another VM with the tags of `vm`; its id."""
        place = {name: vm[name] for name in ("provider", "account", "region", "zone", "instance_type", "market")}
        return self._plant({**place, "tags": vm["tags"]})

    def forward(self, seconds: float) -> None:
        """Moves the time of all clouds forward."""
        self._post("/_sim/forward", {"seconds": seconds})

    @contextmanager
    def fault(self, operation: str, mode: str, **details: Any) -> Iterator[None]:
        """The next call meets a fault, of AWS unless `details` say `provider`; not so afterwards."""
        fault = self._post("/_sim/faults", {"provider": AWS, "operation": operation, "mode": mode, **details})
        try:
            yield
        finally:
            gone = self._http.delete(f"/_sim/faults/{fault['id']}")
            assert gone.is_success or gone.status_code == httpx.codes.NOT_FOUND, gone.text

    @contextmanager
    def refusing_our_credentials(self) -> Iterator[None]:
        self._put("/_sim/credentials", {"bad": [ACCESS_KEY]})
        try:
            yield
        finally:
            self._put("/_sim/credentials", {"bad": []})

    @contextmanager
    def answering_as_another_account(self) -> Iterator[None]:
        """Our credentials belong to somebody else. At AWS; others know no such fault."""
        self._put("/_sim/credentials", {"accounts": {ACCESS_KEY: "999999999999"}})
        try:
            yield
        finally:
            self._put("/_sim/credentials", {"accounts": {}})

    @contextmanager
    def denying(self, *actions: str, provider: str = AWS) -> Iterator[None]:
        """Our credentials lack these permissions; they have all of them afterwards."""
        self._put("/_sim/denied", {"provider": provider, "actions": list(actions)})
        try:
            yield
        finally:
            self._put("/_sim/denied", {"provider": provider, "actions": []})

    @contextmanager
    def refusing_launches(self, code: str, *, provider: str = AWS) -> Iterator[None]:
        """The account may launch nothing; anything afterwards. `code`: of the refusals, at Azure the subscription's state."""
        path, field, usual = (
            ("subscriptions", "state", "Enabled") if provider == "azure" else ("launch-refusals", "code", None)
        )
        account = {} if provider == "azure" else {"provider": provider}
        self._put(f"/_sim/{path}", {**account, field: code})
        try:
            yield
        finally:
            self._put(f"/_sim/{path}", {**account, field: usual})

    @contextmanager
    def protecting(self, vm_ids: Sequence[str], *, provider: str = AWS) -> Iterator[None]:
        """The API refuses to delete these VMs, until afterwards."""
        for vm_id in vm_ids:
            self._put("/_sim/protection", {"provider": provider, "id": vm_id, "protected": True})
        try:
            yield
        finally:
            for vm_id in vm_ids:
                self._put("/_sim/protection", {"provider": provider, "id": vm_id, "protected": False})

    @contextmanager
    def showing_late(self, seconds: float) -> Iterator[None]:
        """A fresh VM shows in no listing and no get for so long; at once afterwards."""
        self._put("/_sim/settings", {"list_lag_seconds": seconds})
        try:
            yield
        finally:
            self._put("/_sim/settings", {"list_lag_seconds": 0})

    def make_disks_take(self, seconds: float) -> None:
        """How long a disk without a VM shows as being created, and as being deleted."""
        self._put("/_sim/settings", {"volume_seconds": seconds})

    @contextmanager
    def agents(self, count: int) -> Iterator[None]:
        """The agents of so many VMs run as processes."""
        self._put("/_sim/settings", {"gpu_agents": count})
        try:
            yield
        finally:
            self._put("/_sim/settings", {"gpu_agents": 0})

    @contextmanager
    def gpus(self, provider: str = AWS, **condition: Any) -> Iterator[None]:
        """VMs launched meanwhile have such GPUs, and later ones healthy ones."""
        self.set_gpus(provider, **condition)
        try:
            yield
        finally:
            self.set_gpus(provider)

    def set_gpus(self, provider: str = AWS, **condition: Any) -> None:
        """The condition of the GPUs of a VM (`instance_id`), or of VMs launched from now on."""
        self._put("/_sim/gpus", {"provider": provider, **condition})

    def plant(self, tags: dict[str, str], **details: Any) -> str:
        """The id of a VM that somebody else started."""
        return self._plant(
            {"provider": AWS, "region": "us-east-1", "instance_type": "g5.xlarge", "tags": tags, **details}
        )

    def _plant(self, body: Json) -> str:
        (planted,) = self._post("/_sim/instances", body)["ids"]
        self.planted.add(str(planted))
        return str(planted)

    def stop(self, instance_id: str, provider: str = AWS) -> None:
        """Somebody ends a VM behind our back."""
        self._post("/_sim/stop", {"provider": provider, "instance_id": instance_id})

    def interrupt(self, instance_id: str, notice_seconds: float, provider: str = AWS) -> None:
        """The cloud wants a spot VM back."""
        body = {"provider": provider, "instance_id": instance_id, "notice_seconds": notice_seconds}
        self._post("/_sim/interrupt", body)

    def _items(self, path: str, params: dict[str, str]) -> list[Json]:
        items: list[Json] = self._http.get(path, params=params).raise_for_status().json()["items"]
        return items

    def _put(self, path: str, body: Json) -> None:
        self._http.put(path, json=body).raise_for_status()

    def _post(self, path: str, body: Json) -> Json:
        document: Json = self._http.post(path, json=body).raise_for_status().json()
        return document

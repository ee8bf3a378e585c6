"""Those who use the stack over HTTP: a tenant and the operator. Documents are JSON as the API answers it."""

import uuid
from collections.abc import Callable, Container, Iterable
from typing import Any, Self

import httpx

from app.local.waiting import wait_until
from cloudsim.testing import NO_TLS
from tests.e2e.stack import PATIENCE

Json = dict[str, Any]

ONE_A10G: Json = {"gpu": {"model": "A10G", "count": 1}, "market": "on_demand", "ttl_seconds": 3600}
TURNED_AWAY = (409, 429, 503)
GROUP_REFUSALS = frozenset({"group_ending", "quota_exceeded", "conflict", "budget_exceeded"})
"""Codes of a change of a group that is refused for what the group or its tenant is."""


class Person:
    """Somebody with a key and connections. Every method raises httpx.HTTPStatusError for an answer that is no success.

    `patient`: reads are repeated while the API, or its database, is away, so that one lost answer ends no long run.
    """

    def __init__(self, api_url: str, key: str, *, patient: bool = False) -> None:
        self.key = key
        self.patient = patient
        self.http = httpx.Client(
            base_url=api_url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE, verify=NO_TLS
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str, **params: str | int | list[str]) -> Json:
        def ask() -> httpx.Response:
            return self.http.get(path, params=params)

        return _document(_until_answered(ask, refusals=frozenset()) if self.patient else ask())

    def put(self, path: str, body: Json) -> Json:
        return _document(self.http.put(path, json=body))

    def patch(self, path: str, body: Json) -> Json:
        return _document(self.http.patch(path, json=body))

    def items(self, path: str, **params: str | int | list[str]) -> list[Json]:
        """All pages of a list."""
        found: list[Json] = []
        page = self.get(path, limit=200, **params)
        while True:
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            page = self.get(path, limit=200, cursor=page["next_cursor"], **params)


class Tenant(Person):
    """Rents. `id` is the tenant's."""

    def __init__(self, api_url: str, key: str, tenant_id: str, *, patient: bool = False) -> None:
        super().__init__(api_url, key, patient=patient)
        self.id = tenant_id

    def ask(self, wish: Json, key: str | None = None) -> httpx.Response:
        """The bare answer to one create."""
        return self.http.post("/v1/leases", json=wish, headers={"Idempotency-Key": key or uuid.uuid4().hex})

    def create(self, wish: Json) -> str:
        """The new lease's id."""
        return str(_document(self.ask(wish))["id"])

    def create_at_any_rate(self, wish: Json, key: str) -> str:
        """The same, asked again under the same key while the API is away or busy."""
        return str(_document(self.ask_at_any_rate(wish, key, refusals=frozenset()))["id"])

    def ask_at_any_rate(
        self, wish: Json, key: str, *, refusals: Container[str] = frozenset({"budget_exceeded"})
    ) -> httpx.Response:
        """The answer to one create, asked again under the same key while the API is away or busy.

        `refusals`: codes that are answers too.
        """
        return _until_answered(lambda: self.ask(wish, key), refusals)

    def create_group_at_any_rate(self, wish: Json, key: str) -> Json:
        """The new group with its members, asked for again under the same key while the API is away or busy."""
        headers = {"Idempotency-Key": key}
        post = lambda: self.http.post("/v1/groups", json=wish, headers=headers)  # noqa: E731 - a call to be repeated
        return _document(_until_answered(post, refusals=frozenset()))

    def change_group_at_any_rate(self, group_id: str, size: int | None) -> httpx.Response:
        """The answer to a new size, or to a release (None), asked for again while the API is away or busy."""
        path = f"/v1/groups/{group_id}"
        call = (
            (lambda: self.http.delete(path)) if size is None else (lambda: self.http.patch(path, json={"size": size}))
        )
        return _until_answered(call, refusals=GROUP_REFUSALS)

    def group(self, group_id: str) -> Json:
        return self.get(f"/v1/groups/{group_id}")

    def groups(self, *states: str) -> list[Json]:
        """Groups without their members."""
        return self.items("/v1/groups", state=list(states))

    def plan(self, wish: Json) -> Json:
        return _document(self.http.post("/v1/leases/plan", json=wish))

    def lease(self, lease_id: str) -> Json:
        return self.get(f"/v1/leases/{lease_id}")

    def leases(self, *states: str) -> list[Json]:
        return self.items("/v1/leases", state=list(states))

    def attempts(self, lease_id: str) -> list[Json]:
        return self.items(f"/v1/leases/{lease_id}/attempts")

    def release(self, lease_id: str) -> Json:
        return _document(self.http.delete(f"/v1/leases/{lease_id}"))

    def wait(self, lease_id: str, *states: str) -> Json:
        """The lease as soon as it is in one of `states`."""
        wait_until(lambda: self.lease(lease_id)["state"] in states, timeout=PATIENCE, poll=0.1)
        lease = self.lease(lease_id)
        assert lease["state"] in states, (lease["state"], lease["reason"], self.attempts(lease_id))
        return lease

    def wait_for_all(self, state: str, count: int) -> list[Json]:
        """All leases in `state`, as soon as there are `count`."""
        wait_until(lambda: len(self.leases(state)) >= count, timeout=PATIENCE, poll=0.3)
        found = self.leases(state)
        assert len(found) == count, {lease["id"]: (lease["state"], lease["reason"]) for lease in self.leases()}
        return found

    def release_all(self) -> None:
        """Ask for the end of every lease, and wait for it."""
        for lease in self.leases("!terminal"):
            self.release(lease["id"])
        wait_until(lambda: not self.leases("!terminal"), timeout=PATIENCE, poll=0.2)
        assert self.leases("!terminal") == []

    def volume_place(self, provider: str, instance_type: str, market: str = "spot") -> Json:
        """Account, region and zone with VMs of a type in a market: where a volume for them can be."""
        offered = self.get("/v1/offerings", limit=1, provider=provider, instance_type=instance_type, market=market)
        (offering,) = offered["items"]
        return {name: offering[name] for name in ("account", "region", "zone")}

    def ask_for_volume(self, name: str, place: Json) -> httpx.Response:
        """The bare answer to one create. The same name has the same key."""
        wish = {"name": name, "size_gib": 10, **place}
        return self.http.post("/v1/volumes", json=wish, headers={"Idempotency-Key": f"volume-{name}"})

    def volumes(self, *states: str) -> list[Json]:
        return self.items("/v1/volumes", state=list(states))

    def delete_volumes(self) -> None:
        """Requests the deletion of every volume that no lease holds."""
        for volume in self.volumes("creating", "available"):
            if volume["lease_id"] is None:
                answer = self.http.delete(f"/v1/volumes/{volume['id']}")
                assert answer.is_success or answer.status_code in TURNED_AWAY, answer.text

    def used(self) -> dict[str, float]:
        """Resource -> what is used of it, without those of which nothing is."""
        quotas = {item["resource"]: float(item["used"]) for item in self.get("/v1/quotas")["items"]}
        return {resource: used for resource, used in quotas.items() if used}


class Operator(Person):
    """Runs the installation."""

    def tenant(self, name: str, gpus: int) -> Tenant:
        """A new tenant with room for `gpus` GPUs."""
        tenant_id = str(self._post("/v1/tenants", {"name": name})["id"])
        self.limit_gpus(tenant_id, gpus)
        key = self._post(f"/v1/tenants/{tenant_id}/keys", {"name": "e2e", "role": "admin"})
        return Tenant(str(self.http.base_url), key["secret"], tenant_id, patient=self.patient)

    def limit_gpus(self, tenant_id: str, gpus: int) -> None:
        self.limit(tenant_id, "gpus", gpus)

    def limit(self, tenant_id: str, resource: str, amount: int | str | None) -> None:
        """None: no limit."""
        self.patch(f"/v1/tenants/{tenant_id}/quotas", {"limits": [{"resource": resource, "limit": amount}]})

    def stop_launches(self, *, stopped: bool) -> None:
        self.put("/v1/ops/launches", {"stopped": stopped, "note": "a test"})

    def account(self) -> Json:
        """The account at the simulated AWS, whose credentials and VMs these tests are about."""
        accounts: list[Json] = self.get("/v1/ops/accounts")["items"]
        (account,) = (one for one in accounts if one["provider"] == "aws")
        return account

    def check_account(self, name: str) -> None:
        """Requests a run of the account's checks."""
        _document(self.http.post(f"/v1/ops/accounts/{name}/checks"))

    def wait_for_offerings(self, *providers: str) -> None:
        """Until each region of these clouds has told what it offers."""
        places = [
            {"account": account["name"], "region": one["region"]}
            for account in self.get("/v1/ops/accounts")["items"]
            if account["provider"] in providers
            for one in account["regions"]
        ]

        def told() -> bool:
            return all(self.get("/v1/offerings", limit=1, **place)["items"] for place in places)

        assert wait_until(told, timeout=PATIENCE, poll=0.2), "no offerings"

    def orphan(self, instance_id: str) -> Json | None:
        """What the garbage collection knows of a VM."""
        found = (one for one in self.orphans(gone=True) if one["instance_id"] == instance_id)
        return next(found, None)

    def hold(self) -> Json | None:
        """Why and since when the installation is on hold."""
        hold: Json | None = self.get("/v1/ops/summary")["brakes"]["hold"]
        return hold

    def orphans(self, *, gone: bool = False) -> list[Json]:
        return self.items("/v1/ops/orphans", gone=str(gone).lower())

    def end_orphan(self, orphan_id: str) -> None:
        """Ends a VM that belongs to no lease. One that has ended meanwhile is as good."""
        answer = self.http.post(f"/v1/ops/orphans/{orphan_id}/end")
        if answer.status_code not in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
            answer.raise_for_status()

    def adopt(self) -> int:
        """How many VMs are to be adopted."""
        return int(_document(self.http.post("/v1/ops/adopt"))["requested"])

    def resume(self) -> None:
        _document(self.http.post("/v1/ops/resume"))

    def installation_id(self) -> str:
        return str(self.get("/v1/ops/summary")["brakes"]["installation_id"])

    def _post(self, path: str, body: Json) -> Json:
        return _document(self.http.post(path, json=body))


def _until_answered(call: Callable[[], httpx.Response], refusals: Container[str]) -> httpx.Response:
    """The first answer of the API that is not to be repeated. `refusals`: codes that are answers too."""
    answers: list[httpx.Response] = []

    def answered() -> bool:
        try:
            answer = call()
        except httpx.TransportError:
            return False
        if answer.status_code not in TURNED_AWAY or answer.json()["code"] in refusals:
            answers.append(answer)
        return bool(answers)

    assert wait_until(answered, timeout=PATIENCE, poll=0.2), "the API did not come back"
    return answers[0]


def _document(answer: httpx.Response) -> Json:
    if not answer.is_success:
        message = f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text}"
        raise httpx.HTTPStatusError(message, request=answer.request, response=answer)
    document: Json = answer.json()
    return document


def ids(leases: Iterable[Json]) -> set[str]:
    return {str(lease["id"]) for lease in leases}

"""Any sequence of what people do, over HTTP, against a model that fits on a page."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx
import hypothesis
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from hypothesis import stateful
from hypothesis import strategies as st

from app.prerequisites import ensure_operator_key
from tests.api.conftest import Caller, MakeSettings, serving
from tests.api.fleet import Fleet

EXAMPLES, STEPS = 12, 25
INTERRUPTION = {"at": "2026-11-01T10:00:00Z", "action": "terminate", "deadline": None}
CONFLICT, FORBIDDEN = 409, 403


@dataclass
class Known:
    """What the model knows of a lease."""

    gpus: int
    state: str = "queued"


@dataclass
class Service:
    """The service under test, as the machine below uses it."""

    portal: BlockingPortal
    app: FastAPI
    operator: str
    fleet: Fleet
    made: int = 0
    callers: dict[str, Caller] = field(default_factory=dict)
    """By key: a client for each request takes as long as a request."""

    def ask(self, key: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """One request with a key."""

        async def asked() -> httpx.Response:
            if key not in self.callers:
                self.callers[key] = Caller(self.app, key)
            return await self.callers[key].request(method, path, json=body)

        return self.portal.call(asked)

    def tell(self, method: str, path: str, body: Any = None) -> Any:
        """What an operator does, who is never refused."""
        answer = self.ask(self.operator, method, path, body)
        assert answer.is_success, answer.text
        return answer.json()


class TenantLife(stateful.RuleBasedStateMachine):
    """What a tenant, the operator, workers and the provider do, in any order."""

    service: ClassVar[Service]

    def __init__(self) -> None:
        super().__init__()
        self.service.made += 1
        self.id = self.service.tell("POST", "/v1/tenants", {"name": f"tenant {self.service.made}"})["id"]
        self.key = self.service.tell("POST", f"/v1/tenants/{self.id}/keys", {"name": "admin", "role": "admin"})[
            "secret"
        ]
        self.leases: dict[str, Known] = {}
        self.suspended = False
        self.limit(6)

    leases_made = stateful.Bundle("leases")

    def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self.service.ask(self.key, method, path, body)

    @property
    def used(self) -> int:
        return sum(one.gpus for one in self.leases.values() if one.state != "released")

    @stateful.rule(target=leases_made, gpus=st.sampled_from([1, 4]))
    def create(self, gpus: int) -> Any:
        answer = self.ask("POST", "/v1/leases", {"gpu": {"model": "A10G", "count": gpus}, "ttl_seconds": 3600})
        if self.suspended:
            assert (answer.status_code, answer.json()["code"]) == (FORBIDDEN, "tenant_suspended")
        elif self.used + gpus > self.most:
            refused = answer.json()
            assert (answer.status_code, refused["code"]) == (CONFLICT, "quota_exceeded")
            assert (refused["limit"], refused["used"]) == (self.most, self.used)
        else:
            assert answer.status_code == 201, answer.text
            self.leases[answer.json()["id"]] = Known(gpus)
            return answer.json()["id"]
        return stateful.multiple()

    @stateful.rule(lease_id=leases_made, seconds=st.integers(60, 3000))
    def extend(self, lease_id: str, seconds: int) -> None:
        answer = self.ask("POST", f"/v1/leases/{lease_id}/extend", {"extend_by_seconds": seconds})
        if self.suspended:
            assert answer.json()["code"] in {"tenant_suspended", "lease_ending"}
        elif self.leases[lease_id].state in {"releasing", "released"}:
            assert (answer.status_code, answer.json()["code"]) == (CONFLICT, "lease_ending")
        else:
            assert answer.status_code == 200, answer.text

    @stateful.rule(lease_id=leases_made)
    def release(self, lease_id: str) -> None:
        answer = self.ask("DELETE", f"/v1/leases/{lease_id}")
        assert answer.status_code == 202, answer.text
        self.end(lease_id)
        assert answer.json()["state"] == self.leases[lease_id].state

    @stateful.rule(lease_id=leases_made)
    def workers_launch_it(self, lease_id: str) -> None:
        if self.leases[lease_id].state == "queued":
            self.service.fleet.activate(lease_id)
            self.leases[lease_id].state = "active"

    @stateful.rule(lease_id=leases_made)
    def the_provider_takes_it_back(self, lease_id: str) -> None:
        if self.leases[lease_id].state == "active":
            self.service.fleet.set_lease(lease_id, interruption=INTERRUPTION)
            assert self.ask("GET", f"/v1/leases/{lease_id}").json()["interruption"]["action"] == "terminate"
            self.service.fleet.finish(lease_id)
            self.leases[lease_id].state = "released"

    @stateful.rule(lease_id=leases_made)
    def workers_end_it(self, lease_id: str) -> None:
        if self.leases[lease_id].state == "releasing":
            self.service.fleet.finish(lease_id)
            self.leases[lease_id].state = "released"

    @stateful.rule(most=st.integers(0, 12))
    def limit(self, most: int) -> None:
        limits = [{"resource": name, "limit": most} for name in ("gpus", "leases")]
        self.service.tell("PATCH", f"/v1/tenants/{self.id}/quotas", {"limits": limits[:1]})
        self.most = most

    @stateful.rule(all_of_it=st.booleans())
    def suspend(self, all_of_it: bool) -> None:
        self.service.tell("PATCH", f"/v1/tenants/{self.id}", {"status": "suspended", "end_leases": all_of_it})
        self.suspended = True
        for lease_id, known in self.leases.items():
            if known.state == "queued" or all_of_it:
                self.end(lease_id)

    @stateful.rule()
    def resume(self) -> None:
        self.service.tell("PATCH", f"/v1/tenants/{self.id}", {"status": "active"})
        self.suspended = False

    def end(self, lease_id: str) -> None:
        if self.leases[lease_id].state != "released":
            self.leases[lease_id].state = "releasing"

    @stateful.invariant()
    def what_is_shown_is_what_happened(self) -> None:
        shown = self.ask("GET", "/v1/leases?limit=200").json()["items"]
        assert {one["id"]: one["state"] for one in shown} == {key: one.state for key, one in self.leases.items()}
        quotas = {one["resource"]: one for one in self.ask("GET", "/v1/quotas").json()["items"]}
        assert quotas["gpus"]["used"] == self.used


def test_no_sequence_of_what_people_do_breaks_the_model(make_settings: MakeSettings, database_url: str) -> None:
    fleet = Fleet(database_url)
    fleet.catalogue()
    settings = hypothesis.settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
    serve = serving(make_settings(key_cache_seconds=0.0))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(serve) as app:
        service = Service(portal, app, ensure_operator_key(database_url, None), fleet)
        life = type("TenantsLife", (TenantLife,), {"service": service})
        stateful.run_state_machine_as_test(life, settings=settings)

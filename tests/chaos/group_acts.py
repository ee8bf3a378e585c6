"""What happens to groups in a storm: they grow, shrink and end, lose VMs, and find a cloud without room."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from app.domain.tags import GROUP, TENANT
from app.local.waiting import wait_until
from bench.three_clouds import Installation
from tests.chaos.course import Course
from tests.chaos.orders import LARGEST
from tests.chaos.plan import CLOUDS, Event
from tests.e2e.cloud import Json
from tests.e2e.people import Tenant

_EAGER_SECONDS = 5.0
_ROOM = (0, 1, 3, 6)
"""VMs that can still start at a cloud with a shortage."""
_ACCEPTED_REFUSALS = (httpx.codes.CONFLICT, httpx.codes.NOT_FOUND)
"""A group that has ended meanwhile, a quota that is tight, a former member that still ends; or a group whose row is lost."""


class GroupActs:
    """Acts on the groups of one tenant. Each returns whether it happened."""

    def __init__(
        self, installation: Installation, course: Course, later: Callable[[float, Callable[[], object]], None]
    ) -> None:
        self._cloud = installation.cloud
        self._course = course
        self._later = later

    def scale(self, event: Event, tenant: Tenant) -> bool:
        """A group gets another size. What it grows by is not among the planned leases."""
        chance = random.Random(event.what)
        group = self._any(chance, tenant, "forming", "active", "degraded")
        if group is None:
            return False
        sizes = {group["size"] * 2, group["size"] // 2, group["size"] + 1, group["size"] - 1}
        size = chance.choice(sorted(one for one in sizes if 1 <= one <= LARGEST))
        if size < group["size"]:
            self._course.groups_shrunk.add(group["id"])
        return self._change(tenant, group["id"], size)

    def release(self, event: Event, tenant: Tenant) -> bool:
        """A group ends, in whatever state it is."""
        group = self._any(random.Random(event.what), tenant, "queued", "forming", "active", "degraded")
        if group is None:
            return False
        self._course.groups_released.add(group["id"])
        return self._change(tenant, group["id"], None)

    def stop_vm(self, event: Event, tenant: Tenant) -> bool:
        """Somebody stops the VM of a member at the cloud."""

        def stopped() -> bool:
            living = self._cloud.vms(TENANT, tenant.id, alive=True)
            members = [vm for vm in living if GROUP in vm["tags"] and vm["id"] not in self._course.copies]
            with suppress(IndexError, httpx.HTTPStatusError):  # there is none, or it has ended meanwhile
                vm = random.Random(event.what).choice(members)
                self._cloud.stop(vm["id"], provider=vm["provider"])
                self._course.stopped.add(vm["id"])
                self._course.note("stopped at the cloud", vm["id"])
                return True
            return False

        return wait_until(stopped, timeout=_EAGER_SECONDS, poll=0.5)

    def run_short(self, event: Event, _tenant: Tenant) -> bool:
        """A cloud has room for few VMs: groups find room for a part of their members."""
        chance = random.Random(event.what)
        place = {"provider": chance.choice(CLOUDS), "market": chance.choice(("on_demand", "spot"))}
        self._cloud.set_capacity(chance.choice(_ROOM), **place)
        self._later(event.seconds, lambda: self._cloud.set_capacity(None, **place))
        return True

    def _any(self, chance: random.Random, tenant: Tenant, *states: str) -> Json | None:
        """One of the groups that are in such a state. None: there is none, or the API is away."""
        with suppress(httpx.HTTPError):
            groups = sorted(tenant.groups(*states), key=lambda group: str(group["id"]))
            return chance.choice(groups) if groups else None
        return None

    def _change(self, tenant: Tenant, group_id: str, size: int | None) -> bool:
        answer: Any = tenant.change_group_at_any_rate(group_id, size)
        if answer.status_code not in _ACCEPTED_REFUSALS:
            answer.raise_for_status()
        return bool(answer.is_success)

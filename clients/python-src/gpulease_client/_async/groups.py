"""Groups: leases that start together in one place, and end together."""

import time
from asyncio import sleep
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import Group, GroupHostList, GroupPlan, GroupSummary, NewGroup
from gpulease_client.errors import GroupEndedError, GroupTimeoutError
from gpulease_client.event import Event, parse_event
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of
from gpulease_client.retries import KEY

FORMED, ENDED = "formed", "ended"
_FORMED = frozenset({"active", "degraded"})
_ENDS = frozenset({"releasing", "ended"})

NewGroupLike = NewGroup | Mapping[str, Any] | None
OnGroupChange = Callable[[Group], None]
GroupUntil = str | Callable[[Group], bool]


class AsyncGroups(AsyncResource):
    """`/v1/groups`. A request is a `NewGroup`, a mapping, or keyword arguments with the names of the API."""

    async def create(
        self,
        request: NewGroupLike = None,
        /,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the waiting, and the same without asyncio
        on_change: OnGroupChange | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Group:
        """Creates a group: `create(name="train", size=2, lease={"gpu": {"model": "H100", "count": 8}, "ttl_seconds": 3600})`.

        `wait`: returns when the group is formed; see `wait` for `timeout`, `on_change` and the errors.
        """
        headers = {KEY: idempotency_key} if idempotency_key else {}
        group = await self._call(Group, "POST", "/v1/groups", json=body_of(request, fields), headers=headers)
        return await self.wait(group, timeout=timeout, on_change=on_change) if wait else group

    async def plan(self, request: NewGroupLike = None, /, **fields: Any) -> GroupPlan:
        """What a request would launch, and what each member and all would cost. Creates nothing."""
        return await self._call(GroupPlan, "POST", "/v1/groups/plan", json=body_of(request, fields))

    async def get(self, group_id: str) -> Group:
        """One group with its members."""
        return await self._call(Group, "GET", path_of("/v1/groups", group_id))

    def list(self, **filters: Any) -> AsyncIterator[GroupSummary]:
        """All groups that match, page after page, without their members. `state="!ended"`: those that have not ended."""
        return self._iterate(GroupSummary.from_dict, "/v1/groups", filters)

    async def wait(
        self,
        group: Group | str,
        until: GroupUntil = FORMED,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for create
        on_change: OnGroupChange | None = None,
        poll_seconds: float = 2.0,
    ) -> Group:
        """The group, once it is formed, has ended for `until="ended"`, or fulfils a function.

        `on_change` receives the group at the start and after each change. Raises GroupEndedError when the group ends
        before that, and GroupTimeoutError after `timeout` seconds. Neither releases the group.
        """
        end = None if timeout is None else time.monotonic() + timeout
        current = group if isinstance(group, Group) else await self.get(group)
        seen = None
        while True:
            if on_change is not None and current.version != seen:
                on_change(current)
            if _is_reached(current, until):
                return current
            if current.terminal or (until == FORMED and current.state in _ENDS):
                raise GroupEndedError(current)
            left = poll_seconds if end is None else min(poll_seconds, end - time.monotonic())
            if left <= 0:
                raise GroupTimeoutError(current, until if isinstance(until, str) else "as requested")
            seen = current.version
            await sleep(left)
            current = await self.get(current.id)

    async def scale(self, group_id: str, size: int) -> Group:
        """Changes the number of members. The last ranks join or leave."""
        return await self._call(Group, "PATCH", path_of("/v1/groups", group_id), json={"size": size})

    async def extend(self, group_id: str, **fields: Any) -> Group:
        """Extends the term of all members, or of none: `extend(group.id, extend_by_seconds=3600)`."""
        return await self._call(Group, "POST", path_of("/v1/groups", group_id, "extend"), json=body_of(None, fields))

    async def release(self, group_id: str) -> Group:
        """Requests the end of the group. `wait(group, "ended")` returns when nothing is billed any longer."""
        return await self._call(Group, "DELETE", path_of("/v1/groups", group_id))

    async def hosts(self, group_id: str) -> GroupHostList:
        """The addresses of the members by rank."""
        return await self._call(GroupHostList, "GET", path_of("/v1/groups", group_id, "hosts"))

    def events(self, group_id: str, **filters: Any) -> AsyncIterator[Event]:
        """The events of a group, in order."""
        return self._iterate(parse_event, path_of("/v1/groups", group_id, "events"), filters)


def _is_reached(group: Group, until: GroupUntil) -> bool:
    if callable(until):
        return until(group)
    return group.state == until or (until == FORMED and group.state in _FORMED) or (until == ENDED and group.terminal)

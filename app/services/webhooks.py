"""Webhooks: made, changed, tried out and looked after by the admins of a tenant. Workers deliver."""

import secrets
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.events import webhooks as statements
from app.domain.ids import is_typeid
from app.domain.webhooks.formats import WebhookFormat, check_format
from app.domain.webhooks.retries import LASTS
from app.domain.webhooks.signature import OVERLAP, TEST, secret_text
from app.domain.webhooks.urls import MOST, RefusedUrl, check_addresses, parse
from app.name_lookup import Lookup, LookupPool, TooManyLookups, look_up
from app.services.acting_tenant import whose
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.errors import Conflict, FieldError, InvalidRequest, RateLimited, ResourceNotFound
from app.services.idempotency import Creation, IdempotencyKey, StoredAnswer, replay, store
from app.services.ops import audit
from app.services.preconditions import IfMatch
from app.services.principal import Principal
from app.services.suspension import lock_active, lock_own
from app.services.totals import total_count

_KIND, _DELIVERIES = "webhooks", "deliveries"
_SECRET_BYTES, _LOOKUP_SECONDS = 32, 5.0
_TOO_MANY_LOOKUPS = "The name servers of other webhook URLs have not answered yet. Send fewer at once."

Aside = AbstractAsyncContextManager[Any]
"""Within it, a call waits for a stranger: it holds nothing that others need."""
_AUDITED = ("url", "description", "event_types", "format", "enabled", "disabled_reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """`event_types` None: every type. `tenant_id` is named by operators alone."""

    url: str
    description: str | None
    event_types: list[str] | None
    format: WebhookFormat
    tenant_id: str | None


class WebhookService:
    """Everything happens within the principal's tenant; an operator may name any."""

    def __init__(self, context: ServiceContext, *, lookup: Lookup = look_up) -> None:
        self._database = context.database
        self._local = context.settings.webhook_local
        self._lookup = lookup
        self._lookups = LookupPool()

    async def create(self, principal: Principal, new: NewWebhook, key: IdempotencyKey | None, aside: Aside) -> Creation:
        """The row and its `secret`, which is None in a repeated answer.

        Raises TenantSuspended, InvalidRequest, RateLimited, Conflict.
        """
        tenant_id = whose(principal, new.tenant_id)
        _check_types(new.event_types, new.format)
        await self._check_url(tenant_id, new.url, aside)
        made = {"id": new_id("webhook"), "tenant_id": tenant_id, "url": new.url, "format": str(new.format)}
        values = {**made, "description": new.description, "event_types": new.event_types}
        async with self._database.transaction(principal.tenant_id) as connection:
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            await _check_room(connection, principal, tenant_id)
            row: Any = (await connection.execute(statements.add(values))).mappings().one()
            secret = await _new_secret(connection, row)
            response = {**row, "previous_valid_until": None, "secret": None}
            await _record(connection, principal, "webhook.create", row, after=_audited(row))
            await store(connection, key, StoredAnswer(status=201, response=to_jsonable_python(response)))
        return Creation({**response, "secret": secret}, replayed=False)

    async def page(self, principal: Principal, tenant_id: str | None, page: PageRequest) -> RowPage:
        """Newest first, of the principal's tenant or of those that an operator names (None: all)."""
        mine = principal.tenant_id or tenant_id
        statement = partial(statements.page, tenant_id=mine)
        after = last_id(page, _KIND, "webhook")
        rows = await self._database.rows(principal.tenant_id, statement(after=after, limit=page.limit + 1))
        first = partial(statement, after=None, limit=1)
        return cut(rows, page, _KIND, await total_count(self._database, principal.tenant_id, page, first))

    async def get(self, principal: Principal, webhook_id: str) -> dict[str, Any]:
        """Raises ResourceNotFound."""
        _check_id("webhook", webhook_id)
        rows = await self._database.rows(principal.tenant_id, statements.get(webhook_id, within=principal.tenant_id))
        if not rows:
            raise ResourceNotFound
        return dict(rows[0])

    async def change(
        self, principal: Principal, webhook_id: str, values: dict[str, Any], if_match: IfMatch, aside: Aside
    ) -> dict[str, Any]:
        """`values`: any of url, description, event_types, format, enabled.

        Raises ResourceNotFound, VersionConflict, TenantSuspended, InvalidRequest, RateLimited.
        """
        _check_id("webhook", webhook_id)
        if "url" in values:
            await self._check_url(principal.tenant_id or principal.key_id, values["url"], aside)
        async with self._database.transaction(principal.tenant_id) as connection:
            if values != {"enabled": False}:
                await lock_own(connection, principal)
            before = await _locked(connection, principal, webhook_id)
            if_match.check(webhook_id, before["version"])
            after = {**before, **values}
            _check_types(after["event_types"], WebhookFormat(after["format"]))
            if all(before[name] == value for name, value in values.items()):
                return dict(before)
            changes = {**values, **_switched(before, values)}
            await connection.execute(statements.change(webhook_id, changes, within=principal.tenant_id))
            changed = await _locked(connection, principal, webhook_id)
            await _record(
                connection, principal, "webhook.change", changed, before=_audited(before), after=_audited(changed)
            )
        return dict(changed)

    async def remove(self, principal: Principal, webhook_id: str) -> None:
        """With its log. What is being sent just now may still arrive. Raises ResourceNotFound."""
        _check_id("webhook", webhook_id)
        async with self._database.transaction(principal.tenant_id) as connection:
            before = await _locked(connection, principal, webhook_id)
            await connection.execute(statements.remove(webhook_id, within=principal.tenant_id))
            await _record(connection, principal, "webhook.delete", before, before=_audited(before))

    async def rotate(self, principal: Principal, webhook_id: str, key: IdempotencyKey | None) -> Creation:
        """A new secret; the present one also signs for a day; older ones do not. Raises ResourceNotFound."""
        _check_id("webhook", webhook_id)
        mine = principal.tenant_id
        async with self._database.transaction(mine) as connection:
            before = await _locked(connection, principal, webhook_id)
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            await connection.execute(statements.end_older_secrets(webhook_id, within=mine))
            await connection.execute(statements.end_present_secret(webhook_id, OVERLAP, within=mine))
            secret = await _new_secret(connection, before)
            await connection.execute(statements.change(webhook_id, {}, within=mine))
            row: Any = await _locked(connection, principal, webhook_id)
            after = {"previous_valid_until": row["previous_valid_until"]}
            await _record(connection, principal, "webhook.rotate_secret", row, after=after)
            response = {**row, "secret": None}
            await store(connection, key, StoredAnswer(status=201, response=to_jsonable_python(response)))
        return Creation({**response, "secret": secret}, replayed=False)

    async def deliveries(self, principal: Principal, webhook_id: str, page: PageRequest) -> RowPage:
        """The log, newest first. Raises ResourceNotFound."""
        _check_id("webhook", webhook_id)
        after, mine = last_id(page, _DELIVERIES, "delivery"), principal.tenant_id
        async with self._database.transaction(mine, read_only=True) as connection:
            if (await connection.execute(statements.get(webhook_id, within=mine))).first() is None:
                raise ResourceNotFound
            log = statements.deliveries(webhook_id, within=mine, after=after, limit=page.limit + 1)
            rows = (await connection.execute(log)).mappings().all()
        first = partial(statements.deliveries, webhook_id, within=mine, after=None, limit=1)
        return cut(rows, page, _DELIVERIES, await total_count(self._database, mine, page, first))

    async def test(self, principal: Principal, webhook_id: str, key: IdempotencyKey | None) -> Creation:
        """Sends `webhook.test`, once. Raises ResourceNotFound, TenantSuspended, Conflict."""
        _check_id("webhook", webhook_id)
        mine = principal.tenant_id
        async with self._database.transaction(mine) as connection:
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            await lock_own(connection, principal)
            hook = await _locked(connection, principal, webhook_id)
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            _check_enabled(hook)
            if (await connection.execute(statements.test_pending(webhook_id, TEST, within=mine))).first() is not None:
                raise Conflict("A test is on its way: look at the deliveries.")
            delivery_id = new_id("delivery")
            await connection.execute(statements.add_delivery(_test(hook, delivery_id)))
            row = await _hurried(connection, principal, webhook_id, delivery_id)
            await _record(connection, principal, "webhook.test", hook, after={"delivery": delivery_id})
            await store(connection, key, StoredAnswer(status=202, response=to_jsonable_python(dict(row))))
        return Creation(dict(row), replayed=False)

    async def replay(
        self, principal: Principal, webhook_id: str, delivery_id: str, key: IdempotencyKey | None
    ) -> Creation:
        """Delivers it as if it were new, under the same message id. Raises ResourceNotFound, Conflict."""
        _check_id("webhook", webhook_id)
        _check_id("delivery", delivery_id)
        mine = principal.tenant_id
        async with self._database.transaction(mine) as connection:
            hook = await _locked(connection, principal, webhook_id)
            before = await _delivery(connection, principal, webhook_id, delivery_id)
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            _check_enabled(hook)
            await connection.execute(statements.again(webhook_id, delivery_id, LASTS, within=mine))
            row = await _hurried(connection, principal, webhook_id, delivery_id)
            before_replay = {"delivery": delivery_id, "state": before["state"], "tries": before["tries"]}
            again = {**before_replay, "state": row["state"], "tries": row["tries"], "next_try_at": row["next_try_at"]}
            await _record(connection, principal, "webhook.replay", hook, before=before_replay, after=again)
            await store(connection, key, StoredAnswer(status=202, response=to_jsonable_python(dict(row))))
        return Creation(dict(row), replayed=False)

    async def _check_url(self, identity: str, url: str, aside: Aside) -> None:
        try:
            target = parse(url, local=self._local)
            async with aside:
                ips = await self._lookups.look_up(identity, _LOOKUP_SECONDS, self._lookup, target.host, target.port)
            check_addresses(ips, local=self._local)
        except RefusedUrl as refused:
            raise InvalidRequest(errors=[FieldError("#/body/url", str(refused))]) from None
        except TooManyLookups:
            raise RateLimited(_TOO_MANY_LOOKUPS, headers={"Retry-After": "5"}) from None


async def _check_room(connection: AsyncConnection, principal: Principal, tenant_id: str) -> None:
    """The tenant's row is locked, so that two who ask at once do not both get the last place."""
    await lock_active(connection, principal, tenant_id)
    if (await connection.execute(statements.count(tenant_id))).scalar_one() >= MOST:
        raise Conflict(f"A tenant has at most {MOST} webhooks: delete one.")


async def _locked(connection: AsyncConnection, principal: Principal, webhook_id: str) -> RowMapping:
    result = await connection.execute(statements.get(webhook_id, within=principal.tenant_id, lock=True))
    row: RowMapping | None = result.mappings().first()
    if row is None:
        raise ResourceNotFound
    return row


async def _delivery(connection: AsyncConnection, principal: Principal, webhook_id: str, delivery_id: str) -> RowMapping:
    result = await connection.execute(statements.delivery(webhook_id, delivery_id, within=principal.tenant_id))
    row: RowMapping | None = result.mappings().first()
    if row is None:
        raise ResourceNotFound
    return row


async def _hurried(connection: AsyncConnection, principal: Principal, webhook_id: str, delivery_id: str) -> RowMapping:
    await connection.execute(statements.hurry(webhook_id, within=principal.tenant_id))
    return await _delivery(connection, principal, webhook_id, delivery_id)


async def _new_secret(connection: AsyncConnection, hook: RowMapping) -> str:
    secret = secret_text(secrets.token_bytes(_SECRET_BYTES))
    owner = {"webhook_id": hook["id"], "tenant_id": hook["tenant_id"]}
    await connection.execute(statements.add_secret({"id": new_id("whsec"), **owner, "secret": secret}))
    return secret


def _test(hook: RowMapping, delivery_id: str) -> dict[str, Any]:
    owner = {"webhook_id": hook["id"], "tenant_id": hook["tenant_id"]}
    about = {**owner, "sequence": None}
    event = {"event_id": new_id("event"), "event_type": TEST, "about": about}
    return {"id": delivery_id, **owner, **event, "gives_up_at": statements.NOW}


def _switched(before: RowMapping, values: dict[str, Any]) -> dict[str, Any]:
    """What goes with switching it on or off, or with leading it elsewhere."""
    enabled = values.get("enabled", before["enabled"])
    if enabled and not before["enabled"]:
        return {"disabled_reason": None, **statements.begin_anew()}
    if before["enabled"] and not enabled:
        return {"disabled_reason": "by_user"}
    return statements.at_once() if "url" in values and enabled else {}


def _check_enabled(hook: RowMapping) -> None:
    if not hook["enabled"]:
        raise Conflict("The webhook is disabled: enable it first.")


async def _record(
    connection: AsyncConnection, principal: Principal, action: str, row: RowMapping, **what: dict[str, Any]
) -> None:
    await audit.record(connection, principal, action, target=row["id"], tenant_id=row["tenant_id"], **what)


def _audited(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in _AUDITED}


def _check_types(event_types: list[str] | None, body_format: WebhookFormat) -> None:
    try:
        check_format(event_types, body_format)
    except ValueError as wrong:
        raise InvalidRequest(errors=[FieldError("#/body/event_types", str(wrong))]) from None


def _check_id(kind: str, text: str) -> None:
    if not is_typeid(kind, text):
        raise ResourceNotFound

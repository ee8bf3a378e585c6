"""Launch batches: one create call for several attempts of a tenant, stored before it is sent.

A batch's row and its slots change together, in one transaction. `last_sent_at` of the row is that of each slot that may
still be sent. A worker that repeats the call compares it first, so that one worker at a time does.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Executable, Text, TextClause, bindparam, exists, func, select, text
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect
from app.db.schema.tables import attempt, launch_batch
from app.domain.ids import AttemptId, BatchId

_STORE = insert(launch_batch)


def store(values: Mapping[str, Any]) -> Bound[Insert]:
    """Records the intent, before any side effect."""
    return Bound(_STORE, {**values, "last_sent_at": None})


@dataclass(slots=True)
class SlotRows:
    """Columns of one bulk write of slots: the attempts in the order of their slots, and the hashes of their tokens."""

    attempts: list[str] = field(default_factory=list)
    host_keys: list[bytes | None] = field(default_factory=list)
    agents: list[bytes | None] = field(default_factory=list)

    def add(self, attempt_id: AttemptId, host_key_hash: bytes | None, agent_hash: bytes | None) -> None:
        """The next slot."""
        self.attempts.append(attempt_id)
        self.host_keys.append(host_key_hash)
        self.agents.append(agent_hash)

    def columns(self) -> dict[str, Any]:
        """Parameters of the statement."""
        return {"attempts": self.attempts, "host_keys": self.host_keys, "agents": self.agents}


# Rows are locked in the order of their ids, as the bulk statements of observation do.
_SLOTS = """
    WITH slot AS MATERIALIZED (
        SELECT id, host_key_hash, agent_hash, CAST(ordinality - 1 AS int) AS index
        FROM unnest(CAST(:attempts AS text[]), CAST(:host_keys AS bytea[]), CAST(:agents AS bytea[]))
            WITH ORDINALITY AS s (id, host_key_hash, agent_hash, ordinality)
    ), locked AS MATERIALIZED (
        SELECT id FROM attempt WHERE id = ANY (CAST(:attempts AS text[])) ORDER BY id FOR NO KEY UPDATE)
"""

_SENT = text(
    _SLOTS
    + """
    , batch AS (UPDATE launch_batch SET last_sent_at = now() WHERE id = :batch)
    UPDATE attempt a SET state = 'sent', batch_id = :batch, batch_index = s.index, host_key_hash = s.host_key_hash,
        agent_hash = s.agent_hash, params = NULL, first_sent_at = now(), last_sent_at = now(), unknown_since = now(), retry_at = NULL
    FROM slot s
    WHERE a.id = s.id AND a.id IN (SELECT id FROM locked) AND a.state = 'planned' AND a.batch_id IS NULL
    RETURNING a.last_sent_at
    """
)


def sent(batch_id: BatchId, slots: SlotRows) -> Bound[Executable]:
    """Gives each attempt its slot and marks all as sent: `planned -> sent`. From here on the outcome is unknown.

    The attempts lose their own parameters: no worker, of whatever version, can send one of them alone. Returns a row
    (last_sent_at) for each attempt that was still planned. The caller has locked the leases.
    """
    return Bound(_SENT, {"batch": batch_id, **slots.columns()})


_UNSENT = text(
    _SLOTS
    + """
    , batch AS MATERIALIZED (SELECT id FROM launch_batch WHERE id = :batch AND last_sent_at = :sent_at FOR UPDATE)
    UPDATE attempt a SET state = 'planned', batch_id = NULL, batch_index = NULL, host_key_hash = s.host_key_hash,
        agent_hash = s.agent_hash, first_sent_at = NULL, last_sent_at = NULL, unknown_since = NULL,
        unreachable_since = CASE WHEN CAST(:reached AS bool) THEN NULL ELSE coalesce(a.unreachable_since, now()) END,
        retry_at = now() + CAST(:pause AS interval), error = CAST(:error AS jsonb)
    FROM slot s, batch
    WHERE a.id = s.id AND a.id IN (SELECT id FROM locked) AND a.batch_id = batch.id AND a.state = 'sent'
      AND a.first_sent_at = :sent_at AND a.last_sent_at = :sent_at
    RETURNING a.id
    """
)


def unsent(
    batch_id: BatchId, slots: SlotRows, sent_at: datetime, pause: float, error: str, *, reached: bool
) -> Bound[Executable]:
    """The only send of a batch was definitely not executed: its attempts are planned again, without a slot.

    The statement has no effect on a batch that was sent again. `error`: JSON {class, code, message}. Each attempt is sent
    again in `pause` seconds, alone or in another batch. `slots` has the hashes of the attempts' own tokens.
    """
    values = {"batch": batch_id, "sent_at": sent_at, "error": error, "reached": reached}
    return Bound(_UNSENT, {**slots.columns(), **values, "pause": timedelta(seconds=pause)})


_REPEATABLE = (
    select(
        launch_batch.c.params,
        launch_batch.c.last_sent_at,
        func.now().label("now"),
        ~exists()
        .where(
            attempt.c.batch_id == launch_batch.c.id,
            (attempt.c.state == "dead") | attempt.c.terminate_sent_at.is_not(None) | (attempt.c.vm_state == "gone"),
        )
        .label("repeatable"),
    )
    .where(launch_batch.c.id == bindparam("batch", type_=Text))
    .with_for_update(of=launch_batch)
)


def locked_batch(batch_id: BatchId) -> Bound[AnySelect]:
    """One row (params, last_sent_at, now, repeatable). The batch stays locked until the end of the transaction.

    `repeatable`: no VM of it is ending or gone, and none was declared never created. Otherwise a repeat could create a VM
    anew, at a cloud that has forgotten the call.
    """
    return Bound(_REPEATABLE, {"batch": batch_id})


_SENT_AGAIN = text(
    """
    WITH locked AS MATERIALIZED (
        SELECT id FROM attempt WHERE batch_id = :batch AND state IN ('sent', 'settling') ORDER BY id FOR NO KEY UPDATE
    ), batch AS (UPDATE launch_batch SET last_sent_at = now() WHERE id = :batch)
    UPDATE attempt a SET last_sent_at = now(), unknown_since = coalesce(a.unknown_since, now()),
        empty_listings = 0, last_empty_listing_at = NULL,
        retry_at = CASE WHEN a.state = 'settling' THEN a.retry_at
                        WHEN a.lease_id = ANY (CAST(:held AS text[])) THEN NULL ELSE now() + CAST(:call AS interval) END
    WHERE a.id IN (SELECT id FROM locked)
    """
)


def sent_again(batch_id: BatchId, held: Iterable[str], *, call_seconds: float) -> Bound[Executable]:
    """Marks every slot of unknown outcome as sent now, also the slots that are only searched for.

    `held`: leases whose claims the sender holds. Workers that hold other ones wait for the outcome of this call.
    """
    return Bound(_SENT_AGAIN, {"batch": batch_id, "held": list(held), "call": timedelta(seconds=call_seconds)})


_ASK_AGAIN = text(
    """
    WITH asked AS (
        UPDATE attempt SET retry_at = NULL
        WHERE id IN (SELECT id FROM attempt WHERE batch_id = :batch AND state = 'sent' AND last_sent_at = :sent_at
                       AND lease_id = ANY (CAST(:leases AS text[])) ORDER BY id FOR NO KEY UPDATE)
        RETURNING lease_id)
    UPDATE lease SET next_due = now(), wake_count = wake_count + 1 WHERE id IN (SELECT lease_id FROM asked)
    """
)


def ask_again(batch_id: BatchId, sent_at: datetime, lease_ids: Sequence[str]) -> Bound[Executable]:
    """Lets the workers that hold these leases repeat the call at once, and decide by its answer."""
    return Bound(_ASK_AGAIN, {"batch": batch_id, "sent_at": sent_at, "leases": list(lease_ids)})


_MEMBERS = (
    select(
        attempt.c.id,
        attempt.c.lease_id,
        attempt.c.token,
        attempt.c.batch_index,
        attempt.c.unknown_since,
        attempt.c.instance_id,
    )
    .where(attempt.c.batch_id == bindparam("batch", type_=Text))
    .order_by(attempt.c.batch_index)
)


def members(batch_id: BatchId) -> Bound[AnySelect]:
    """(id, lease_id, token, batch_index, unknown_since, instance_id) of the attempts of a batch, in the order of their slots."""
    return Bound(_MEMBERS, {"batch": batch_id})


_PARAMS = select(launch_batch.c.params).where(launch_batch.c.id == bindparam("batch", type_=Text))


def params(batch_id: BatchId) -> Bound[AnySelect]:
    """One row (params): what was sent, or null once no slot may be sent or searched for."""
    return Bound(_PARAMS, {"batch": batch_id})


_ANSWERED = text("UPDATE launch_batch SET answered_at = coalesce(answered_at, now()) WHERE id = :batch")


def answered(batch_id: BatchId) -> Bound[Executable]:
    """A call has returned VMs of the batch."""
    return Bound(_ANSWERED, {"batch": batch_id})


_FORGET = text(
    """
    UPDATE launch_batch b SET params = NULL
    WHERE b.id = ANY (CAST(:batches AS text[])) AND b.params IS NOT NULL
      AND NOT EXISTS (SELECT FROM attempt a WHERE a.batch_id = b.id AND a.state IN ('planned', 'sent', 'settling'))
    """
)


def forget_params(batch_ids: Collection[BatchId]) -> Bound[Executable]:
    """Clears the parameters of batches of which no slot may be sent or searched for any more. Their hash stays."""
    return Bound(_FORGET, {"batches": list(batch_ids)})


_NAMED = text(
    """
    SELECT k.batch_id, k.slot, b.id IS NOT NULL AS known, a.lease_id, a.n
    FROM unnest(CAST(:batches AS text[]), CAST(:indexes AS int[])) AS k (batch_id, slot)
    LEFT JOIN launch_batch b ON b.id = k.batch_id AND b.account = :account AND b.region = :region
    LEFT JOIN attempt a ON a.batch_id = b.id AND a.batch_index = k.slot
    """
)


def named_slots(account: str, region: str, slots: Collection[tuple[str, int]]) -> Bound[TextClause]:
    """(batch_id, slot, known, lease_id, n) of slots that listed VMs name. `known`: the database has the batch.

    A slot without an attempt has no lease: its attempt is deleted, or was sent otherwise after this batch was not.
    """
    batches, indexes = [slot[0] for slot in slots], [slot[1] for slot in slots]
    return Bound(_NAMED, {"account": account, "region": region, "batches": batches, "indexes": indexes})


_OWNERS = text(
    """
    SELECT a.instance_id, a.lease_id, a.n, a.tenant_id, a.params_hash, l.name, l.deadline_applied
    FROM attempt a JOIN lease l ON l.id = a.lease_id
    WHERE a.account = :account AND a.region = :region AND a.instance_id = ANY (CAST(:ids AS text[])) AND a.state = 'known'
      AND l.deadline_applied IS NOT NULL AND NOT l.term_in_doubt AND a.terminate_sent_at IS NULL
    """
)


def owners(account: str, region: str, instance_ids: Collection[str]) -> Bound[TextClause]:
    """(instance_id, lease_id, n, tenant_id, params_hash, name, deadline_applied): what the tags of these VMs should be.

    Leaves out VMs that end, and VMs whose deadline tag may hold a term that the database has lost.
    """
    return Bound(_OWNERS, {"account": account, "region": region, "ids": list(instance_ids)})


_JUDGED = text(
    """
    SELECT k.id, b.id IS NULL AS rowless,
           b.id IS NOT NULL AND NOT EXISTS (SELECT FROM attempt a WHERE a.batch_id = b.id AND a.ended_at IS NULL) AS ended
    FROM unnest(CAST(:batches AS text[])) AS k (id)
    LEFT JOIN launch_batch b ON b.id = k.id AND b.account = :account AND b.region = :region
    WHERE EXISTS (SELECT FROM installation WHERE hold IS NULL)
    """
)


def judged(account: str, region: str, batch_ids: Collection[str]) -> Bound[TextClause]:
    """Of each batch: whether all of its attempts have ended (`ended`), or there is no such batch (`rowless`).

    No row while the installation is on hold.
    """
    return Bound(_JUDGED, {"account": account, "region": region, "batches": list(batch_ids)})

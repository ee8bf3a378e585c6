"""Invariants, as SELECTs that return a row for each violation, and the results of the last check of each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, TextClause, func, literal_column, select, text

from app.db.core.sql import AnySelect
from app.db.leases.billing import cost, price_segments
from app.db.schema.tables import attempt, invariant, lease
from app.db.tenancy.quotas import RECOUNT

_EXAMPLES = 3
"""The number of violations that are stored for each invariant."""

Found = Mapping[str, Sequence[Mapping[str, Any]]]
"""The violations of each check, by its name."""


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant: a row of `statement` is a violation."""

    name: str
    statement: TextClause | AnySelect


_segment = price_segments()
_BILLED = cost(_segment.c.rate_per_hour, _segment.c.starts_at, _segment.c.ends_at)
_NOTHING: ColumnElement[Any] = literal_column("0")
_ROUNDING: ColumnElement[Any] = literal_column("0.0001")
"""USD: the cost of each closed attempt is rounded to a millionth."""

CHECKS = (
    Check("used equals the claims", RECOUNT),
    Check(
        "an ended lease holds nothing",
        text(
            """
            SELECT l.id, c.resource FROM lease l JOIN quota_claim c ON c.lease_id = l.id
            WHERE l.state IN ('released', 'failed')
            """
        ),
    ),
    Check(
        "an ended lease has no live or unclean attempt and no open billing",
        text(
            """
            SELECT l.id, a.id AS attempt_id, a.state FROM lease l JOIN attempt a ON a.lease_id = l.id
            WHERE l.state IN ('released', 'failed')
              AND (a.ended_at IS NULL OR NOT a.clean
                   OR (a.billing_started_at IS NOT NULL AND a.billing_ended_at IS NULL))
            """
        ),
    ),
    Check(
        "a lease has at most one live attempt",
        text("SELECT lease_id FROM attempt WHERE ended_at IS NULL GROUP BY lease_id HAVING count(*) > 1"),
    ),
    Check(
        "attempts are numbered 1 to attempts_count",
        text(
            """
            SELECT l.id FROM lease l LEFT JOIN attempt a ON a.lease_id = l.id
            GROUP BY l.id HAVING count(a.id) <> l.attempts_count OR coalesce(max(a.n), 0) <> l.attempts_count
            """
        ),
    ),
    Check(
        "a VM belongs to one attempt",
        text(
            """
            SELECT account, region, instance_id FROM attempt WHERE instance_id IS NOT NULL
            GROUP BY 1, 2, 3 HAVING count(*) > 1
            """
        ),
    ),
    Check(
        "events are gapless within a lease",
        text(
            """
            SELECT l.id FROM lease l LEFT JOIN event e ON e.lease_id = l.id
            GROUP BY l.id
            HAVING coalesce(max(e.lease_sequence), 0) <> l.events_count AND count(e.id) > 0
                OR coalesce(max(e.lease_sequence) - min(e.lease_sequence) + 1, 0) <> count(e.id)
            """
        ),
    ),
    Check(
        "an ended lease cost what its attempts cost",
        select(lease.c.id, lease.c.cost_closed)
        .join(attempt, attempt.c.lease_id == lease.c.id)
        .outerjoin(_segment, _segment.c.attempt_id == attempt.c.id)
        .where(lease.c.ended_at.is_not(None))
        .group_by(lease.c.id)
        .having(func.abs(lease.c.cost_closed - func.coalesce(func.sum(_BILLED), _NOTHING)) > _ROUNDING),
    ),
    Check(
        "a lease expires at its expiry and not before",
        text(
            """
            SELECT id, expires_at, release_requested_at FROM lease
            WHERE reason ->> 'code' = 'expired' AND release_requested_at < expires_at
            """
        ),
    ),
    Check(
        "an ended group has no live member",
        text(
            """
            SELECT l.id, g.id AS group_id FROM lease l JOIN lease_group g ON g.id = l.group_id
            WHERE l.ended_at IS NULL AND g.state = 'ended'
            """
        ),
    ),
    Check(
        "a lease that holds a volume is live, of its tenant, and named it",
        text(
            """
            SELECT v.id, v.lease_id FROM volume v JOIN lease l ON l.id = v.lease_id
            WHERE l.ended_at IS NOT NULL OR l.tenant_id <> v.tenant_id
               OR NOT l.request -> 'volumes' @> jsonb_build_array(jsonb_build_object('name', v.name))
            """
        ),
    ),
    Check(
        "a disk belongs to one volume",
        text(
            """
            SELECT account, region, cloud_id FROM volume WHERE cloud_id IS NOT NULL AND ended_at IS NULL
            GROUP BY 1, 2, 3 HAVING count(*) > 1
            """
        ),
    ),
    Check(
        "members of a group launch in its pool",
        text(
            """
            SELECT l.id, g.id AS group_id, a.id AS attempt_id
            FROM lease l JOIN lease_group g ON g.id = l.group_id JOIN attempt a ON a.lease_id = l.id AND a.ended_at IS NULL
            WHERE l.desired = 'run' AND NOT l.group_retreat AND (
                g.pool IS NULL
                OR (a.account, a.region, a.instance_type, a.market)
                    <> (g.pool ->> 'account', g.pool ->> 'region', g.pool ->> 'instance_type', g.pool ->> 'market')
                OR a.zone <> coalesce(g.pool ->> 'zone', a.zone))
            """
        ),
    ),
    Check(
        "secrets of ended leases are forgotten",
        text(
            """
            SELECT l.id FROM lease l WHERE l.state IN ('released', 'failed')
              AND (EXISTS (SELECT FROM lease_secret s WHERE s.lease_id = l.id) AND NOT EXISTS (
                       SELECT FROM lease_group g WHERE g.id = l.group_id AND g.state <> 'ended')
                   OR EXISTS (SELECT FROM attempt a WHERE a.lease_id = l.id AND a.params IS NOT NULL))
            """
        ),
    ),
)


def check(connection: Connection) -> Found:
    """The violations of each invariant. Every check sees the data of one moment."""
    return {rule.name: [dict(row) for row in connection.execute(rule.statement).mappings()] for rule in CHECKS}


def violations(connection: Connection) -> list[str]:
    """One line for each violation; empty when every invariant holds."""
    return [f"{name}: {row}" for name, rows in check(connection).items() for row in rows]


def examples(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first few violations, as values that JSON can represent."""
    first: list[dict[str, Any]] = json.loads(json.dumps([dict(row) for row in rows[:_EXAMPLES]], default=str))
    return first


_NOTE = text(
    """
    WITH found AS (
        SELECT * FROM unnest(CAST(:names AS text[]), CAST(:counts AS int[]), CAST(:examples AS text[])) f (name, violations, examples)),
    before AS (SELECT name, violations FROM invariant),
    forgotten AS (DELETE FROM invariant i WHERE NOT EXISTS (SELECT FROM found f WHERE f.name = i.name)),
    noted AS (
        INSERT INTO invariant AS i (name, violations, examples, since)
        SELECT name, violations, CAST(examples AS jsonb), CASE WHEN violations > 0 THEN now() END FROM found
        ON CONFLICT (name) DO UPDATE SET
            violations = excluded.violations, examples = excluded.examples, checked_at = now(),
            since = CASE WHEN excluded.violations > 0 THEN coalesce(i.since, now()) END
        RETURNING i.name, i.violations, i.examples)
    SELECT n.name, n.violations, n.examples FROM noted n LEFT JOIN before b USING (name)
    WHERE (n.violations > 0) <> (coalesce(b.violations, 0) > 0) ORDER BY n.name
    """
)


def note(results: Found) -> Executable:
    """Stores the results of a check.

    Returns (name, violations, examples) of the invariants that broke, or hold again, since the last check.
    """
    return _NOTE.bindparams(
        names=list(results),
        counts=[len(rows) for rows in results.values()],
        examples=[json.dumps(examples(rows)) for rows in results.values()],
    )


NOTED = select(
    invariant.c.name,
    invariant.c.violations,
    invariant.c.examples,
    invariant.c.since,
    invariant.c.checked_at,
    func.extract("epoch", func.now() - invariant.c.checked_at).label("age"),
).order_by(invariant.c.name)
"""The results of the last check, by name, and its age in seconds."""

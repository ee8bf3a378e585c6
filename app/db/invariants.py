"""What must always be true, as SELECTs that answer a row for each violation."""

from dataclasses import dataclass

from sqlalchemy import Connection, TextClause, text

from app.db.quotas import RECOUNT


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant: a row of `statement` is a violation."""

    name: str
    statement: TextClause


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
        text(
            """
            SELECT l.id, l.cost_closed FROM lease l JOIN attempt a ON a.lease_id = l.id
            WHERE l.state IN ('released', 'failed')
            GROUP BY l.id HAVING abs(l.cost_closed - coalesce(sum(
                a.price_per_hour * extract(epoch FROM a.billing_ended_at - a.billing_started_at) / 3600), 0)) > 0.0001
            """
        ),
    ),
    Check(
        "secrets of ended leases are forgotten",
        text(
            """
            SELECT l.id FROM lease l WHERE l.state IN ('released', 'failed')
              AND (EXISTS (SELECT FROM lease_secret s WHERE s.lease_id = l.id)
                   OR EXISTS (SELECT FROM attempt a WHERE a.lease_id = l.id AND a.params IS NOT NULL))
            """
        ),
    ),
)


def violations(connection: Connection) -> list[str]:
    """One line for each violation; empty when all is well."""
    return [f"{check.name}: {dict(row)}" for check in CHECKS for row in connection.execute(check.statement).mappings()]

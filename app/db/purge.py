"""Deleting what is past its time, a bounded number of rows at once."""

from sqlalchemy import text

_IDEMPOTENCY = text(
    """
    DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM idempotency WHERE created_at < now() - interval '72 hours' LIMIT 5000))
    """
)
_EVENTS = text(
    """
    DELETE FROM event WHERE row_id = ANY (ARRAY(
        SELECT row_id FROM event WHERE at < now() - interval '90 days' AND sequence IS NOT NULL
        ORDER BY row_id LIMIT 5000))
    """
)
_ORPHANS = text("DELETE FROM orphan WHERE state IN ('gone', 'adopted') AND last_seen_at < now() - interval '30 days'")

_CONSOLES = text("DELETE FROM lease_console WHERE at < now() - interval '7 days'")

_DELIVERIES = text(
    """
    DELETE FROM webhook_delivery WHERE id = ANY (ARRAY(
        SELECT id FROM webhook_delivery WHERE created_at < now() - interval '30 days' ORDER BY created_at LIMIT 5000))
    """
)
_SECRETS = text("DELETE FROM webhook_secret WHERE valid_until < now()")

STATEMENTS = (_IDEMPOTENCY, _EVENTS, _ORPHANS, _CONSOLES, _DELIVERIES, _SECRETS)
"""Idempotency records are kept 72 hours, events 90 days, ended orphans and webhooks' deliveries 30 days, console output 7 days."""

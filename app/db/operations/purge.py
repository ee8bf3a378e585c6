"""Deletion of rows past their retention time, a bounded number of rows in each statement."""

from datetime import timedelta

from sqlalchemy import TextClause, text

from app.db.core.prepared import Bound
from app.domain.usage import KEPT_MONTHS, RECORDS_KEPT_DAYS

MOST = 5000
"""Rows that one of the statements with a limit deletes."""
_IDEMPOTENCY = text(
    f"""
    DELETE FROM idempotency WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM idempotency WHERE created_at < now() - interval '72 hours' LIMIT {MOST}))
    """
)
_EVENTS = text(
    f"""
    DELETE FROM event WHERE row_id = ANY (ARRAY(
        SELECT row_id FROM event WHERE at < now() - interval '90 days' AND sequence IS NOT NULL
        ORDER BY row_id LIMIT {MOST}))
    """
)
_ORPHANS = text("DELETE FROM orphan WHERE state IN ('gone', 'adopted') AND gone_at < now() - interval '30 days'")

_CONSOLES = text("DELETE FROM lease_console WHERE at < now() - interval '7 days'")

_DELIVERIES = text(
    f"""
    DELETE FROM webhook_delivery WHERE id = ANY (ARRAY(
        SELECT id FROM webhook_delivery WHERE created_at < now() - interval '30 days' ORDER BY created_at LIMIT {MOST}))
    """
)
_USAGE = text(
    f"""
    DELETE FROM usage_rollup WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM usage_rollup WHERE step IN ('hour', 'day') AND starts_at < now() - interval '{KEPT_MONTHS} months'
        LIMIT {MOST}))
    """
)
_RECORDS, _COSTS = (
    text(
        f"""
        DELETE FROM {table} WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {table} WHERE {steps} starts_at < now() - interval '{RECORDS_KEPT_DAYS} days' LIMIT {MOST}))
        """
    )
    for table, steps in (("usage_record", ""), ("cost_rollup", "step IN ('hour', 'day') AND"))
)
_QUOTES = text(
    f"""
    DELETE FROM quote WHERE id = ANY (ARRAY(
        SELECT id FROM quote WHERE valid_until < now() - interval '7 days' ORDER BY valid_until LIMIT {MOST}))
    """
)
_INVOICES = text("DELETE FROM invoice_import WHERE month < now() - interval '400 days'")
_MESSAGES = text(
    f"""
    DELETE FROM operator_message WHERE id = ANY (ARRAY(
        SELECT id FROM operator_message
        WHERE next_try_at IS NULL AND created_at < now() - interval '90 days' ORDER BY id LIMIT {MOST}))
    """
)
_BAD_GPUS = text("DELETE FROM bad_gpu WHERE last_seen_at < now() - interval '400 days'")
_LATEST = text(
    f"""
    DELETE FROM gpu_latest s WHERE s.lease_id = ANY (ARRAY(
        SELECT g.lease_id FROM gpu_latest g LEFT JOIN lease l ON l.id = g.lease_id
        WHERE (l.id IS NULL OR l.ended_at < now() - interval '1 day')
          AND g.sampled_at < (SELECT samples_rolled_until FROM usage_progress) LIMIT {MOST}))
    """
)
_BENCHMARKS = text(
    f"""
    DELETE FROM gpu_benchmark WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM gpu_benchmark WHERE measured_at < now() - interval '400 days' LIMIT {MOST}))
    """
)
_BATCHES = text(
    f"""
    DELETE FROM launch_batch WHERE id = ANY (ARRAY(
        SELECT b.id FROM launch_batch b
        WHERE b.created_at < now() - interval '90 days' AND NOT EXISTS (SELECT FROM attempt a WHERE a.batch_id = b.id)
        LIMIT {MOST}))
    """
)
_BATCH_PARAMS = text(
    """
    UPDATE launch_batch b SET params = NULL
    WHERE b.params IS NOT NULL
      AND NOT EXISTS (SELECT FROM attempt a WHERE a.batch_id = b.id AND a.state IN ('planned', 'sent', 'settling'))
    """
)
_GROUPS = text(
    f"""
    DELETE FROM lease_group WHERE id = ANY (ARRAY(
        SELECT g.id FROM lease_group g
        WHERE g.ended_at < now() - interval '90 days' AND NOT EXISTS (SELECT FROM lease l WHERE l.group_id = g.id)
        LIMIT {MOST}))
    """
)
AUDIT_KEPT_DAYS = 400
"""Days of entries of the audit trail, and of API keys after their end."""
_AUDIT = text(
    f"""
    DELETE FROM audit WHERE id = ANY (ARRAY(
        SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT {MOST}) oldest
        WHERE at < now() - interval '{AUDIT_KEPT_DAYS} days'))
    """
)
_KEYS = text(
    f"""
    DELETE FROM api_key WHERE id = ANY (ARRAY(
        SELECT k.id FROM api_key k
        WHERE least(k.revoked_at, k.expires_at) < now() - interval '{AUDIT_KEPT_DAYS} days'
          AND NOT EXISTS (SELECT FROM budget b WHERE b.key_id = k.id)
        LIMIT {MOST}))
    """
)
_VOLUMES = text(
    f"""
    DELETE FROM volume WHERE id = ANY (ARRAY(
        SELECT id FROM volume WHERE ended_at < now() - interval '{RECORDS_KEPT_DAYS} days' LIMIT {MOST}))
    """
)
_SECRETS = text("DELETE FROM webhook_secret WHERE valid_until < now()")

STATEMENTS = (
    _IDEMPOTENCY,
    _EVENTS,
    _ORPHANS,
    _CONSOLES,
    _DELIVERIES,
    _SECRETS,
    _USAGE,
    _RECORDS,
    _COSTS,
    _QUOTES,
    _MESSAGES,
    _INVOICES,
    _BAD_GPUS,
    _LATEST,
    _BENCHMARKS,
    _BATCHES,
    _BATCH_PARAMS,
    _GROUPS,
    _AUDIT,
    _KEYS,
    _VOLUMES,
)
"""Retention.

- a day: the newest sample of an ended lease
- 72 hours: idempotency records
- 7 days: console output and quotes
- 30 days: ended orphans and webhook deliveries
- 90 days: events, launch batches without attempts, ended groups without leases and messages to operators
- 13 months: sums of use
- 400 days: usage records, their sums, imported invoices, benchmarks, broken GPUs, entries of the audit trail, ended API
  keys without a budget and ended volumes
"""


_ROLLUPS = text(
    f"""
    DELETE FROM gpu_rollup WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM gpu_rollup WHERE starts_at < now() - CAST(:age AS interval) LIMIT {MOST}))
    """
)


def gpu_rollups(*, days: int) -> Bound[TextClause]:
    """Deletes hourly means of GPU samples that are older than `days`."""
    return Bound(_ROLLUPS, {"age": timedelta(days=days)})


_LEASES = text(
    """
    WITH doomed AS MATERIALIZED (
        SELECT l.id FROM lease l
        WHERE l.created_at < now() - CAST(:age AS interval) AND l.ended_at < now() - CAST(:age AS interval)
          AND NOT EXISTS (SELECT FROM attempt a WHERE a.lease_id = l.id AND (a.ended_at IS NULL OR NOT a.clean))
          AND NOT EXISTS (SELECT FROM quota_claim c WHERE c.lease_id = l.id)
          AND NOT EXISTS (SELECT FROM usage_progress u WHERE u.recorded_corrections_until <= l.ended_at)
          AND NOT EXISTS (SELECT FROM orphan o WHERE o.lease_id = l.id AND o.state IN ('seen', 'ending'))
        ORDER BY l.created_at, l.id LIMIT :limit FOR UPDATE OF l SKIP LOCKED),
    archived AS (
        INSERT INTO attempt_archive (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market,
            gpu_model, gpu_count, instance_id, price_per_hour, disk_price_per_hour, address_price_per_hour, billing_started_at,
            billing_ended_at, ended_at)
        SELECT a.id, a.lease_id, a.tenant_id, a.n, a.provider, a.account, a.region, a.zone, a.instance_type, a.market,
            a.offering #>> '{gpu,model}', CAST(a.offering #>> '{gpu,count}' AS int), a.instance_id, a.price_per_hour,
            a.disk_price_per_hour, a.address_price_per_hour, a.billing_started_at, a.billing_ended_at, a.ended_at
        FROM attempt a JOIN doomed d ON d.id = a.lease_id
        WHERE a.instance_id IS NOT NULL OR (a.state = 'dead' AND a.first_sent_at IS NOT NULL)),
    consoles AS (DELETE FROM lease_console c USING doomed d WHERE c.lease_id = d.id),
    secrets AS (DELETE FROM lease_secret s USING doomed d WHERE s.lease_id = d.id),
    attempts AS (DELETE FROM attempt a USING doomed d WHERE a.lease_id = d.id)
    DELETE FROM lease l USING doomed d WHERE l.id = d.id
    """
)


def leases(*, days: int, limit: int) -> Bound[TextClause]:
    """Deletes leases that ended more than `days` ago, the oldest first, with their attempts.

    Its row count is the number of leases. A lease stays while a part of it may live or is claimed. Such parts are a VM
    not proven dead, a leftover resource, and a VM that was seen. It also stays until its usage is recorded. An attempt
    that may have had a VM leaves a row in `attempt_archive`. That row keeps the cost, and proves what the VM was.
    """
    return Bound(_LEASES, {"age": timedelta(days=days), "limit": limit})

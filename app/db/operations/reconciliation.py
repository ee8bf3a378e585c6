"""What leases and volumes cost by gpulease's clock, beside what providers charged.

An attempt and a charge meet in the resource and the day. A charge for a resource that is no VM, such as a disk, meets the
attempt of the lease in its tags. Records of a volume have it as their attempt and their lease. A charge for its disk meets
it by the disk, as that for a VM does: a second disk with copied tags stays visible.
"""

from dataclasses import asdict
from datetime import date

from sqlalchemy import TextClause, text

from app.db.core.prepared import Bound
from app.domain.list_filters import ReconciliationFilter

_ROWS = """
    WITH months AS (
        SELECT CAST(first AS date) AS first, CAST(first + interval '1 month' AS date) AS next
        FROM (SELECT coalesce(CAST(:month AS timestamp), date_trunc('month', now() AT TIME ZONE 'UTC')) AS first) chosen),
    used AS MATERIALIZED (
        SELECT r.attempt_id, r.lease_id, r.tenant_id, r.provider, r.instance_id,
            CAST(r.starts_at AT TIME ZONE 'UTC' AS date) AS day,
            sum(r.compute_cost + r.disk_cost + r.address_cost) AS cost
        FROM usage_record r CROSS JOIN months m
        WHERE r.starts_at >= (m.first - 1) AT TIME ZONE 'UTC' AND r.starts_at < (m.next + 1) AT TIME ZONE 'UTC'
        GROUP BY 1, 2, 3, 4, 5, 6),
    attempts AS MATERIALIZED (
        SELECT DISTINCT ON (attempt_id) attempt_id, lease_id, tenant_id, provider, instance_id FROM used
        ORDER BY attempt_id, instance_id NULLS LAST),
    -- a VM's last hour of use and the hour of its last charge may lie on two days
    near AS MATERIALIZED (
        SELECT u.attempt_id, u.lease_id, u.provider, u.instance_id, u.day + away.days AS day, abs(away.days) AS distance
        FROM used u CROSS JOIN (VALUES (0), (-1), (1)) AS away (days)),
    by_resource AS MATERIALIZED (
        SELECT DISTINCT ON (n.provider, k.key, n.day) n.provider, k.key, n.day, n.attempt_id
        FROM near n
        CROSS JOIN LATERAL regexp_split_to_table(lower(regexp_replace(n.instance_id, '^[^:/]*/', '')), ':') AS k (key)
        ORDER BY n.provider, k.key, n.day, n.distance, n.attempt_id DESC),
    by_lease AS MATERIALIZED (
        SELECT DISTINCT ON (n.provider, n.lease_id, n.day) n.provider, n.lease_id, n.day, n.attempt_id
        FROM near n ORDER BY n.provider, n.lease_id, n.day, n.distance, n.attempt_id DESC),
    charges AS MATERIALIZED (
        SELECT l.day, l.provider, l.resource_id, l.lease_id, l.is_vm,
            CASE WHEN l.is_vm THEN l.resource_id ELSE lower(regexp_replace(l.resource_id, '^.*/', '')) END AS key,
            l.installation IS NOT NULL AND l.installation = (SELECT id FROM installation) AS ours, sum(l.cost) AS cost
        FROM invoice_line l CROSS JOIN months m
        WHERE l.day >= m.first AND l.day < m.next
        GROUP BY 1, 2, 3, 4, 5, 6, 7),
    charged AS MATERIALIZED (
        SELECT c.*, coalesce(r.attempt_id, t.attempt_id) AS attempt_id
        FROM charges c
        LEFT JOIN by_resource r ON (c.is_vm OR c.ours) AND r.provider = c.provider AND r.key = c.key AND r.day = c.day
        LEFT JOIN by_lease t ON NOT c.is_vm AND c.ours AND NOT starts_with(c.lease_id, 'vol_')
            AND t.provider = c.provider AND t.lease_id = c.lease_id AND t.day = c.day),
    invoiced AS MATERIALIZED (
        SELECT attempt_id, day, sum(cost) AS cost FROM charged WHERE attempt_id IS NOT NULL GROUP BY 1, 2),
    -- estimates are compared only for days that the imported files reach
    reached AS MATERIALIZED (
        SELECT i.provider, min(i.first_day) AS first, max(i.last_day) AS last
        FROM invoice_import i CROSS JOIN months m
        WHERE i.replaced_at IS NULL AND i.last_day >= m.first AND i.first_day < m.next
        GROUP BY 1),
    estimated AS MATERIALIZED (
        SELECT u.attempt_id, u.day, u.cost
        FROM used u JOIN reached r ON r.provider = u.provider AND u.day BETWEEN r.first AND r.last CROSS JOIN months m
        WHERE u.day >= m.first AND u.day < m.next AND u.cost <> 0),
    rows AS (
        SELECT CASE WHEN i.attempt_id IS NULL THEN 'gpulease_only' ELSE 'matched' END AS kind, day, a.provider,
            coalesce(a.instance_id, a.attempt_id) AS resource_id, a.lease_id, a.tenant_id, true AS ours, attempt_id,
            coalesce(e.cost, 0) AS estimated, coalesce(i.cost, 0) AS invoiced
        FROM estimated e FULL JOIN invoiced i USING (attempt_id, day) JOIN attempts a USING (attempt_id)
        UNION ALL
        SELECT 'cloud_only', c.day, c.provider, c.resource_id, max(c.lease_id), max(coalesce(l.tenant_id, v.tenant_id)),
            bool_or(c.ours), '', 0, sum(c.cost)
        FROM charged c LEFT JOIN lease l ON l.id = c.lease_id LEFT JOIN volume v ON v.id = c.lease_id
        WHERE c.attempt_id IS NULL GROUP BY c.day, c.provider, c.resource_id),
    wanted AS (
        SELECT kind, day, provider, resource_id, tenant_id, ours, attempt_id, estimated, invoiced,
            CASE WHEN NOT starts_with(lease_id, 'vol_') THEN lease_id END AS lease_id,
            CASE WHEN starts_with(lease_id, 'vol_') THEN lease_id END AS volume_id
        FROM rows
        WHERE (CAST(:tenant_id AS text) IS NULL OR tenant_id = :tenant_id)
            AND (CAST(:kind AS text) IS NULL OR kind = :kind)),
    -- what the provider has refunded costs nothing
    orphans AS (
        SELECT provider, resource_id FROM wanted WHERE kind = 'cloud_only' AND ours GROUP BY 1, 2 HAVING sum(invoiced) > 0)
"""
_ORPHAN = "kind = 'cloud_only' AND ours AND (provider, resource_id) IN (SELECT provider, resource_id FROM orphans)"

_ITEMS = text(
    _ROWS
    + """
    SELECT * FROM wanted
    WHERE CAST(:after_day AS date) IS NULL
        OR (day, provider, resource_id, attempt_id, kind) > (:after_day, :after_provider, :after_resource, :after_attempt, :after_kind)
    ORDER BY day, provider, resource_id, attempt_id, kind LIMIT :limit
    """
)

_TOTALS = text(
    _ROWS
    + f"""
    SELECT tenant_id, sum(estimated) AS estimated, sum(invoiced) AS invoiced,
        count(DISTINCT lease_id) AS leases, count(*) AS items,
        count(*) FILTER (WHERE kind = 'gpulease_only') AS gpulease_only,
        count(DISTINCT (provider, resource_id)) FILTER (WHERE kind = 'cloud_only') AS cloud_only,
        count(DISTINCT (provider, resource_id)) FILTER (WHERE {_ORPHAN}) AS unlisted,
        coalesce(sum(invoiced) FILTER (WHERE {_ORPHAN}), 0) AS unlisted_cost
    FROM wanted GROUP BY tenant_id ORDER BY tenant_id NULLS LAST
    """
)

_COUNT_UNLISTED = text(
    _ROWS
    + f""",
    unlisted AS (SELECT DISTINCT provider, resource_id, day FROM wanted WHERE {_ORPHAN}),
    lines AS (
        SELECT l.import_id, l.provider, l.resource_id, sum(l.cost) AS cost,
            min(l.import_id) OVER (PARTITION BY l.provider, l.resource_id) AS first_import
        FROM invoice_line l JOIN unlisted USING (provider, resource_id, day)
        GROUP BY l.import_id, l.provider, l.resource_id),
    counts AS (
        SELECT import_id, count(*) AS own, count(*) FILTER (WHERE import_id = first_import) AS first, sum(cost) AS cost
        FROM lines GROUP BY import_id)
    UPDATE invoice_import i
    SET unlisted_resources = coalesce(c.first, 0), unlisted_cost = coalesce(c.cost, 0)
    FROM invoice_import j LEFT JOIN counts c ON c.import_id = j.id CROSS JOIN months m
    WHERE i.id = j.id AND j.month = m.first
    RETURNING i.id, coalesce(c.own, 0) AS resources, i.unlisted_cost AS cost
    """
)
"""A resource with lines of several imports counts for the first of them, so that the sum of the month is the report's."""

_IMPORTS = text(
    """
    SELECT id, file_name, provider, billing_accounts, first_day, last_day, lines, imported_at
    FROM invoice_import
    WHERE month = coalesce(CAST(:month AS date), date_trunc('month', now() AT TIME ZONE 'UTC')) AND replaced_at IS NULL ORDER BY provider, imported_at
    """
)

Key = tuple[date, str, str, str, str]
"""(day, provider, resource_id, attempt_id, kind)"""


def items(criteria: ReconciliationFilter, *, after: Key | None, limit: int) -> Bound[TextClause]:
    """Rows by day, provider and resource, each with the lease or the volume.

    `kind`: `matched`, `cloud_only` (a charge for what no attempt used about that day) or `gpulease_only` (an estimate
    without a charge). `ours`: it is a lease's or a volume's, or carries this installation's tag.
    """
    day, provider, resource, attempt, kind = after or (None, None, None, None, None)
    place = {"after_day": day, "after_provider": provider, "after_resource": resource, "after_attempt": attempt}
    return Bound(_ITEMS, {**asdict(criteria), **place, "after_kind": kind, "limit": limit})


def totals(criteria: ReconciliationFilter) -> Bound[TextClause]:
    """A row for each tenant, NULL last: charges that belong to no tenant.

    `unlisted`: resources with this installation's tag that belong to no lease and to no volume.
    """
    return Bound(_TOTALS, asdict(criteria))


def count_unlisted(month: date) -> Bound[TextClause]:
    """Counts anew what belongs to no lease, for each import of the month. Returns (id, resources, cost) of each.

    `resources`: those with a line of this import, whether or not another import has one too.
    """
    return Bound(_COUNT_UNLISTED, asdict(ReconciliationFilter(month=month)))


def imports(criteria: ReconciliationFilter) -> Bound[TextClause]:
    """The imports of the month that no newer one has replaced."""
    return Bound(_IMPORTS, {"month": criteria.month})

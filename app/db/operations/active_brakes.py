"""The active brakes, as one statement: the summary, the accounts and the metrics show the same."""

from sqlalchemy import TextClause, literal_column, text

from app.db.core.compiled import with_values
from app.db.fleet.cool_offs import IS_SILENT
from app.db.fleet.jobs import ALIVE_FOR
from app.domain.leases import LIVE_ATTEMPT
from app.domain.mass_loss import CONFIRMING_CYCLES

_LIVE = ", ".join(f"'{state}'" for state in sorted(LIVE_ATTEMPT))
_SET_BY = "concat_ws(': ', 'by ' || ({brake} ->> 'by'), {brake} ->> 'note')"
CORDONED_OFFERINGS = """concat_ws(', ', coalesce(cordon ->> 'instance_type', 'every type'),
    coalesce(cordon ->> 'zone', 'every zone'), coalesce(cordon ->> 'market', 'every market'))"""
"""What a member `cordon` of the column `cordons` covers, in words."""

_OBSERVED = f"""
    observed AS (
        SELECT account_region.*, {with_values(IS_SILENT)} AS silent, account.state <> 'draining'
            AND NOT coalesce(jsonb_exists(account.config -> 'regions', account_region.region), true) AS has_left
        FROM account_region JOIN account ON account.name = account_region.account
        WHERE (account.state <> 'draining'
            AND coalesce(jsonb_exists(account.config -> 'regions', account_region.region), true))
            OR EXISTS (SELECT FROM attempt WHERE attempt.account = account_region.account
                AND attempt.region = account_region.region AND attempt.state IN ({_LIVE}))
    ), workers AS (
        SELECT max(started_at) AS started_at FROM worker_heartbeat
        WHERE kind = 'worker' AND seen_at > now() - interval '{ALIVE_FOR.total_seconds():g} seconds'
    )"""
"""The regions that are listed: those of configured accounts, and those with live attempts."""

ACTIVE_BRAKES: TextClause = text(
    f"""
    WITH {_OBSERVED}
    SELECT 'hold' AS brake, NULL::text AS account, NULL::text AS region, (hold ->> 'since')::timestamptz AS since,
        NULL::timestamptz AS until, NULL::text AS code, hold ->> 'reason' AS message
    FROM installation WHERE hold IS NOT NULL
    UNION ALL
    SELECT 'launches_stopped', NULL, NULL, (launches_stopped ->> 'since')::timestamptz, NULL, NULL,
        {_SET_BY.format(brake="launches_stopped")}
    FROM installation WHERE launches_stopped IS NOT NULL
    UNION ALL
    SELECT 'cordon', name, NULL, (cordoned ->> 'since')::timestamptz, NULL, NULL, {_SET_BY.format(brake="cordoned")}
    FROM account WHERE cordoned IS NOT NULL
    UNION ALL
    SELECT 'offering_cordon', account, region, (cordon ->> 'since')::timestamptz, NULL, NULL,
        concat_ws(', ', {CORDONED_OFFERINGS}, {_SET_BY.format(brake="cordon")})
    FROM observed, jsonb_array_elements(cordons) AS cordon
    UNION ALL
    SELECT CASE state WHEN 'disabled' THEN 'pinned_identity' ELSE 'credentials_rejected' END, name, NULL, NULL, NULL,
        last_error ->> 'code', last_error ->> 'message'
    FROM account WHERE state IN ('disabled', 'failing')
    UNION ALL
    SELECT 'draining', name, NULL, NULL, NULL, NULL, NULL FROM account
    WHERE state = 'draining' AND EXISTS (SELECT FROM attempt WHERE attempt.account = account.name AND attempt.state IN ({_LIVE}))
    UNION ALL
    SELECT 'account_blocked', account, region, blocked_since, blocked_until, blocked_by ->> 'code', blocked_by ->> 'message'
    FROM observed WHERE blocked_until > now()
    UNION ALL
    SELECT 'silence', account, region, (last_error ->> 'since')::timestamptz, NULL, last_error ->> 'code', last_error ->> 'message'
    FROM observed WHERE silent
    UNION ALL
    SELECT 'vanished', account, region, NULL, NULL, NULL, NULL FROM observed
    WHERE EXISTS (SELECT FROM jsonb_each_text(vanishing) AS tenant WHERE tenant.value::int < {CONFIRMING_CYCLES})
    UNION ALL
    SELECT 'rowless', account, region, NULL, NULL, NULL, NULL FROM observed
    WHERE rowless_cycles BETWEEN 1 AND {CONFIRMING_CYCLES - 1}
    UNION ALL
    SELECT 'first_listing', account, region, workers.started_at, NULL, NULL, NULL FROM observed, workers
    WHERE workers.started_at IS NOT NULL
        AND (last_listing_started_at IS NULL OR last_listing_started_at < workers.started_at)
    UNION ALL
    SELECT 'region_left', account, region, NULL, NULL, NULL, NULL FROM observed WHERE has_left
    ORDER BY brake, account, region, since
    """
)
"""(brake, account, region, since, until, code, message). `since` NULL: unknown. `until` NULL: until its cause is gone."""

BRAKES_OF_ACCOUNT = literal_column(
    f"(SELECT coalesce(json_agg(DISTINCT brake), '[]')::text FROM ({ACTIVE_BRAKES.text}) active WHERE active.account = account.name)"
).label("brakes")
"""A column of a query of `account`: the names as a JSON text, those of its regions too."""

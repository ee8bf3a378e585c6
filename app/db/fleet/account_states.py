"""The state of accounts as operators see it: a catalogue that cannot be read is a state of its own."""

from sqlalchemy import and_, case, exists, func, or_, select, true

from app.db.core.sql import AnySelect
from app.db.schema.tables import account, account_region, periodic_job

OFFERINGS_JOB = "offerings"
"""The kind of the jobs that read the offerings of an account and region."""

_job = periodic_job.alias("offerings_job")
_IS_FAILING = and_(_job.c.kind == OFFERINGS_JOB, _job.c.last_error.is_not(None))
CATALOGUE_ERROR = (
    select(_job.c.last_error)
    .where(_IS_FAILING, _job.c.account == account_region.c.account, _job.c.region == account_region.c.region)
    .limit(1)
    .scalar_subquery()
)
"""A column of a query of `account_region`: why the last reading of its offerings failed. NULL: it did not fail."""

FAILING_CATALOGUE = "failing_catalogue"
STATE = case(
    (
        and_(
            or_(account.c.state == "ok", account.c.state == "unchecked"),
            exists().where(_IS_FAILING, _job.c.account == account.c.name),
        ),
        FAILING_CATALOGUE,
    ),
    else_=account.c.state,
)
"""A column of a query of `account`: its state as operators see it. Placement uses an account whose catalogue fails."""


def configured_regions() -> AnySelect:
    """(account, provider, region, refreshed, catalogue_error) of accounts in use.

    `refreshed`: the catalogue has the region's offerings. `catalogue_error`: why their last reading failed.
    """
    regions = account.c.config["regions"]
    configured = func.coalesce(func.jsonb_exists(regions, account_region.c.region), true())
    refreshed = account_region.c.service_quotas.is_not(None).label("refreshed")
    return (
        select(
            account_region.c.account,
            account.c.provider,
            account_region.c.region,
            refreshed,
            CATALOGUE_ERROR.label("catalogue_error"),
        )
        .join(account, account.c.name == account_region.c.account)
        .where(account.c.state != "draining", configured)
        .order_by(account.c.provider, account_region.c.region, account_region.c.account)
    )

"""Readings of the catalogue that fail in part or in whole."""

from collections.abc import Callable

import pytest
from sqlalchemy import select, text

from app.db.fleet.account_states import CATALOGUE_ERROR, STATE, configured_regions
from app.db.schema.tables import account, account_region, offering
from tests.workers.failing import NOBODY_KNOWS, SLOW_DOWN, Failing
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.refresh_offerings import refresh
from workers.jobs.runner import PeriodicRunner, ensure_jobs
from workers.jobs.schedule import job_specs


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet], failing: Failing) -> Fleet:
    return make_fleet(connect_account=failing.connect)


def _run(fleet: Fleet, statement: str) -> None:
    fleet.runtime.database.run(text(statement))


def _account_view(fleet: Fleet) -> tuple[str, str | None]:
    """State and cause, as operators see them."""
    views = select(STATE, CATALOGUE_ERROR).select_from(account.join(account_region))
    ((state, cause),) = map(tuple, fleet.runtime.database.all(views))
    return state, cause


def _run_offerings_job(fleet: Fleet) -> None:
    specs = {"offerings": job_specs(fleet.runtime.settings).refresh["offerings"]}
    ensure_jobs(fleet.runtime, specs)
    _run(fleet, "UPDATE periodic_job SET next_due = now() WHERE kind = 'offerings'")
    assert PeriodicRunner(fleet.runtime, specs).run_one()


def test_a_failing_quota_service_keeps_no_offering_out_of_the_catalogue(fleet: Fleet, failing: Failing) -> None:
    _run(fleet, "UPDATE account_region SET service_quotas = NULL")
    _run(fleet, "DELETE FROM offering")
    failing.errors = {"service_quotas": SLOW_DOWN}
    assert refresh(fleet.runtime, ACCOUNT, REGION) > 0
    assert fleet.runtime.database.all(select(offering.c.instance_type))
    (row,) = fleet.runtime.database.all(configured_regions())
    assert row.refreshed
    failing.errors = {}
    refresh(fleet.runtime, ACCOUNT, REGION)
    (known,) = fleet.runtime.database.all(select(account_region.c.service_quotas))
    failing.errors = {"service_quotas": SLOW_DOWN}
    refresh(fleet.runtime, ACCOUNT, REGION)
    assert known.service_quotas
    assert fleet.region().service_quotas == known.service_quotas, "the last limits stay"


def test_an_account_whose_catalogue_fails_is_failing_until_a_reading_succeeds(fleet: Fleet, failing: Failing) -> None:
    failing.errors = {"offered": NOBODY_KNOWS}
    _run_offerings_job(fleet)
    assert _account_view(fleet) == ("failing_catalogue", "OutcomeUnknown: Timeout no answer")
    assert fleet.account().state == "ok", "its offerings are not set aside"
    failing.errors = {}
    _run_offerings_job(fleet)
    assert _account_view(fleet) == ("ok", None)

"""Workers check each account once a day, and when an operator requests it."""

from datetime import timedelta
from typing import Any

from sqlalchemy import func, update

from app.db.fleet import account_checks
from app.db.schema.tables import account, account_check
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs.account_checks import check_when_due
from workers.jobs.runner import PeriodicRunner, ensure_jobs
from workers.jobs.schedule import job_specs


def last(fleet: Fleet) -> Any:
    return fleet.runtime.database.first(account_checks.of_account(ACCOUNT))


def test_a_request_is_served_once_by_a_job_of_the_account(fleet: Fleet) -> None:
    every = {"checks": job_specs(fleet.runtime.settings).refresh["checks"]}
    ensure_jobs(fleet.runtime, every)
    fleet.sim.deny("ec2:DescribeVolumes")
    fleet.runtime.database.run(account_checks.request(ACCOUNT))
    assert PeriodicRunner(fleet.runtime, every).run_one()
    failed = [check for check in last(fleet).checks if check["result"] == "failed"]
    assert [(check["name"], check["region"]) for check in failed] == [("ec2:DescribeVolumes", REGION)]
    assert fleet.sim.instances() == []
    assert check_when_due(fleet.runtime, ACCOUNT, "") == 0


def test_an_account_is_due_a_minute_after_it_is_new_and_then_once_a_day(fleet: Fleet) -> None:
    database = fleet.runtime.database

    def is_due() -> bool:
        return database.first(account_checks.due(ACCOUNT, every=timedelta(days=1))) is not None

    assert not is_due()
    database.run(update(account).values(created_at=func.now() - timedelta(minutes=2)))
    assert is_due()
    database.run(account_checks.save(ACCOUNT, []))
    assert not is_due()
    database.run(update(account_check).values(checked_at=func.now() - timedelta(hours=25)))
    assert is_due()


def test_wrong_credentials_are_a_failed_check(fleet: Fleet) -> None:
    fleet.runtime.database.run(account_checks.request(ACCOUNT))
    fleet.sim.credentials(bad=["AKIASIMULATED0000001"])
    assert check_when_due(fleet.runtime, ACCOUNT, "") == 1
    assert [check["subject"] for check in last(fleet).checks] == ["credentials"]

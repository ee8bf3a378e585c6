"""Workers check each account once a day, and when an operator requests it."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import DBAPIError

from app.db.fleet import account_checks, accounts
from app.db.schema.tables import account, account_check, lease
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


def test_a_run_reports_a_block_as_a_failed_check_ends_it_and_wakes_the_queue(fleet: Fleet) -> None:
    fleet.sim.refuse_launches("Blocked")
    waiting = fleet.create(wait_seconds=600)
    fleet.pause(waiting)
    database = fleet.runtime.database
    (row,) = database.all(accounts.blocked_regions(ACCOUNT))
    assert (row.region, row.blocked_by["code"]) == (REGION, "Blocked")
    fleet.sim.refuse_launches(None)
    due = select(lease.c.next_due > func.now() + timedelta(seconds=1)).where(lease.c.id == waiting)
    database.run(update(lease).values(next_due=func.now() + timedelta(minutes=5)))
    assert database.all(due) == [(True,)]
    database.run(account_checks.request(ACCOUNT))
    check_when_due(fleet.runtime, ACCOUNT, "")
    (failed,) = [check for check in last(fleet).checks if check["result"] == "failed"]
    assert (failed["subject"], failed["name"]) == ("region", REGION)
    assert "The account may launch no instance" in failed["detail"]
    assert database.all(accounts.blocked_regions(ACCOUNT)) == []
    assert database.all(due) == [(False,)]
    fleet.runtime.catalogue.forget()
    fleet.drive_to(waiting, "active")


def test_a_run_that_is_not_saved_leaves_the_block(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.sim.refuse_launches("Blocked")
    fleet.pause(fleet.create(wait_seconds=600))
    fleet.runtime.database.run(account_checks.request(ACCOUNT))
    with monkeypatch.context() as context:
        context.setattr(account_checks, "save", lambda *_: text("SELECT 1 / 0"))
        with pytest.raises(DBAPIError):
            check_when_due(fleet.runtime, ACCOUNT, "")
    fleet.sim.refuse_launches(None)
    check_when_due(fleet.runtime, ACCOUNT, "")
    assert [check["name"] for check in last(fleet).checks if check["result"] == "failed"] == [REGION]

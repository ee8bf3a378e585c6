"""The last checks of an account, and the request for another run."""

import pytest
from psycopg.types.json import Jsonb

from app.api.schemas.accounts import AccountChecks, AccountPage
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_ops import keeps_to

PATH = "/v1/ops/accounts/main/checks"
CHECKS = [
    {
        "subject": "right",
        "name": "ec2:RunInstances",
        "result": "failed",
        "detail": "UnauthorizedOperation",
        "fix": "grant ec2:RunInstances",
        "region": "us-east-1",
    },
    {"subject": "image", "name": "default", "result": "passed", "detail": "", "fix": None, "region": None},
]


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_an_account_that_was_never_checked_has_no_checks(operator: Caller, fleet: Fleet) -> None:
    answer = await operator.get(PATH)
    keeps_to(AccountChecks, answer.content)
    assert (answer.json()["checked_at"], answer.json()["checks"]) == (None, [])
    account = (await operator.get("/v1/ops/accounts")).json()["items"][0]
    assert (account["last_check_at"], account["failed_checks"]) == (None, None)


async def test_the_last_checks_are_shown_with_their_fixes(operator: Caller, fleet: Fleet) -> None:
    statement = "INSERT INTO account_check (account, checked_at, failed, checks) VALUES ('main', now(), 1, %s)"
    fleet.run(statement, Jsonb(CHECKS))
    answer = await operator.get(PATH)
    keeps_to(AccountChecks, answer.content)
    shown = answer.json()
    assert (shown["passed"], shown["failed"], shown["not_checked"]) == (1, 1, 0)
    assert shown["checks"] == CHECKS
    page = await operator.get("/v1/ops/accounts")
    keeps_to(AccountPage, page.content)
    assert page.json()["items"][0]["failed_checks"] == 1


async def test_an_operator_requests_another_run(operator: Caller, fleet: Fleet) -> None:
    for _ in range(2):
        answer = await operator.post(PATH)
        keeps_to(AccountChecks, answer.content)
        assert answer.status_code == 202
        assert answer.json()["requested_at"] is not None
    assert (
        fleet.run("SELECT action, target FROM audit WHERE action = 'account.check'")
        == [{"action": "account.check", "target": "main"}] * 2
    )


async def test_an_unknown_account_has_none(operator: Caller, fleet: Fleet) -> None:
    for name in ("other", "%00"):
        assert (await operator.get(f"/v1/ops/accounts/{name}/checks")).status_code == 404
        assert (await operator.post(f"/v1/ops/accounts/{name}/checks")).status_code == 404

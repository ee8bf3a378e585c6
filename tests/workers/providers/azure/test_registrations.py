"""The checks of a subscription: its state, and what it must have registered."""

import pytest

from app.domain.account_checks import CheckResult
from cloudsim.testing import running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import account
from workers.providers.azure.adapter import AzureProvider

NAMES = ["Microsoft.Compute", "Microsoft.Network", "Microsoft.Compute/UseStandardSecurityType"]


@pytest.mark.parametrize("missing", NAMES)
def test_the_check_names_what_is_not_registered(missing: str) -> None:
    with running() as sim:
        azure = AzureProvider(account(sim.url), read_settings(call_timeout=60.0))
        assert {check.result for check in azure.check_account("inst") if check.name in NAMES} == {CheckResult.PASSED}
        sim.subscription(unregistered=[missing])
        failed = [
            check
            for check in azure.check_account("inst")
            if check.name in NAMES and check.result is not CheckResult.PASSED
        ]
    assert [check.name for check in failed] == [missing]
    assert failed[0].fix is not None
    assert "register" in failed[0].fix


@pytest.mark.parametrize(
    ("state", "launches"),
    [("PastDue", "accepts"), ("Warned", "refuses"), ("Disabled", "refuses"), ("Deleted", "refuses")],
)
def test_the_check_names_the_state_of_a_subscription_and_its_identity_answers(state: str, launches: str) -> None:
    name = "state of the subscription"
    with running() as sim:
        azure = AzureProvider(account(sim.url), read_settings(call_timeout=60.0))
        (usual,) = [check for check in azure.check_account("inst") if check.name == name]
        assert (usual.result, usual.detail) == (CheckResult.PASSED, "Enabled")
        known = azure.identity()
        sim.subscription(state)
        assert azure.identity() == known
        (check,) = [check for check in azure.check_account("inst") if check.name == name]
    assert check.result is CheckResult.FAILED
    assert f"is {state}: Azure" in check.detail
    assert launches in check.detail
    assert check.fix is not None

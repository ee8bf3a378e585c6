"""The provider does not believe us any more, and then does again."""

from app.local.waiting import wait_until
from tests.e2e.cloud import Cloud
from tests.e2e.people import ONE_A10G, Operator, Tenant
from tests.e2e.stack import PATIENCE


def test_a_refused_account_is_set_aside_and_comes_back_by_itself(
    tenant: Tenant, operator: Operator, cloud: Cloud
) -> None:
    """A lease accepted before waits, and looks a last time when its patience ends.

    Launches are stopped at first, so that nothing is sent before the account is known to fail.
    """
    operator.stop_launches(stopped=True)
    lease_id = tenant.create({**ONE_A10G, "name": "patient", "wait_seconds": 20})
    with cloud.refusing_our_credentials():
        assert wait_until(lambda: operator.account()["state"] == "failing", timeout=PATIENCE, poll=0.1)
        operator.stop_launches(stopped=False)
        assert operator.account()["last_error"]["code"] == "AuthFailure"
        assert wait_until(lambda: told(tenant) == {"unavailable"}, timeout=PATIENCE, poll=0.1)
        assert wait_until(lambda: tenant.lease(lease_id)["reason"] is not None, timeout=PATIENCE, poll=0.1)
        waiting = tenant.lease(lease_id)
        assert (waiting["state"], waiting["reason"]["code"]) == ("queued", "provider_auth")
    assert wait_until(lambda: operator.account()["state"] == "ok", timeout=PATIENCE, poll=0.1), operator.account()
    tenant.wait(lease_id, "active")


def told(tenant: Tenant) -> set[str]:
    """What tenants are told of the account's offerings."""
    return {offering["availability"]["status"] for offering in tenant.items("/v1/offerings", gpu_model="A10G")}

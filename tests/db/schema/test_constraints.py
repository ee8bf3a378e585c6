"""What the tables themselves refuse, whoever writes."""

from typing import Any

import pytest
from sqlalchemy import func, insert
from sqlalchemy.exc import IntegrityError

from app.db.schema.tables import attempt, lease, quota_claim
from tests.db.store import ENDED, Store

RATE = {"rate_per_hour": 1, "rate_since": func.now()}


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"state": "unheard of"}, "ck_lease_state"),
        ({"desired": "perhaps"}, "ck_lease_desired"),
        ({"state": "active"}, "ck_lease_active"),
        ({"state": "active", "ready_at": func.now(), "desired": "end"}, "ck_lease_active"),
        ({"state": "releasing"}, "ck_lease_releasing"),
        ({**ENDED, **RATE}, "ck_lease_terminal_unbilled"),
        ({**ENDED, "ended_at": None}, "ck_lease_terminal"),
        ({**ENDED, "next_due": func.now()}, "ck_lease_terminal"),
        ({**ENDED, "desired": "run"}, "ck_lease_terminal"),
        ({"ended_at": func.now()}, "ck_lease_terminal"),
        ({"rate_per_hour": 1}, "ck_lease_rate"),
        ({"rate_since": func.now()}, "ck_lease_rate"),
        ({"on_interruption": "cry"}, "ck_lease_on_interruption"),
    ],
)
def test_an_impossible_lease_is_refused(store: Store, values: dict[str, Any], constraint: str) -> None:
    lease_id = store.lease()
    with pytest.raises(IntegrityError, match=constraint):
        store.write(lease, lease_id, **values)


@pytest.mark.parametrize(
    ("state", "values", "constraint"),
    [
        ("sent", {"state": "unheard of", "ended_at": func.now()}, "ck_attempt_state"),
        ("sent", {"state": "known"}, "ck_attempt_known"),
        ("known", {"vm_state": "on fire"}, "ck_attempt_vm_state"),
        ("known", {"state": "dead"}, "ck_attempt_ended"),
        ("known", {"ended_at": func.now()}, "ck_attempt_ended"),
        ("known", {"state": "dead", "ended_at": func.now(), "billing_started_at": func.now()}, "ck_attempt_billing"),
    ],
)
def test_an_impossible_attempt_is_refused(store: Store, state: str, values: dict[str, Any], constraint: str) -> None:
    attempt_id = store.attempt(store.lease(), state)
    with pytest.raises(IntegrityError, match=constraint):
        store.write(attempt, attempt_id, **values)


@pytest.mark.parametrize("amount", [0, -1])
def test_a_claim_of_nothing_is_refused(store: Store, amount: int) -> None:
    values = {"lease_id": store.lease(), "tenant_id": store.tenant_id, "resource": "gpus", "amount": amount}
    with pytest.raises(IntegrityError, match="ck_quota_claim_amount"):
        store.run(insert(quota_claim).values(values))


def test_a_lease_of_no_tenant_is_refused(store: Store) -> None:
    with pytest.raises(IntegrityError, match="fk_lease_tenant_id"):
        store.lease(tenant_id="tenant_01jz0000000000000000000009")

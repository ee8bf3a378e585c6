"""Quota: exact under any concurrency. After every test the fixture compares `used` with the claims."""

from decimal import Decimal
from itertools import product
from random import Random

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from app.db.schema.tables import tenant
from app.db.tenancy import quotas
from app.domain.ids import LeaseId
from app.domain.quotas import allowed
from tests.db.store import Store, together

THREADS = 16
ONE = {"gpus": Decimal(1), "leases": Decimal(1)}


def test_of_many_at_once_exactly_the_limit_is_admitted(store: Store) -> None:
    tenant = store.tenant(gpus=40, leases=None)
    admitted = together(THREADS, lambda _: [store.admit(tenant, ONE) for _ in range(3)])
    assert sum(lease_id is not None for many in admitted for lease_id in many) == 40
    assert store.used(tenant) == {"gpus": 40, "leases": 40}


def test_resources_named_in_any_order_never_wait_for_each_other_in_a_circle(store: Store) -> None:
    names = ["gpus", "leases", "gpus:A100", "spend_per_hour"]
    tenant = store.tenant(gpus=1000, leases=25, model_A100=1000, spend_per_hour=None)

    def admit(number: int) -> list[LeaseId | None]:
        mixed = Random(number).sample(names, len(names))
        return [store.admit(tenant, dict.fromkeys(mixed, Decimal(1))) for _ in range(2)]

    admitted = [lease_id for many in together(THREADS, admit) for lease_id in many]
    assert sum(lease_id is not None for lease_id in admitted) == 25
    assert store.used(tenant) == dict.fromkeys(names, 25)


def test_admitting_changing_and_releasing_at_once_never_passes_the_limit_or_leaks(store: Store) -> None:
    tenant = store.tenant(gpus=24, leases=None, model_A=None, model_B=8)

    def live(number: int) -> list[bool]:
        random, fits = Random(number), []
        for _ in range(3):
            lease_id = store.admit(tenant, ONE)
            if lease_id is None:
                continue
            for _ in range(2):
                gpus = Decimal(random.choice([1, 2, 8]))
                amounts = {f"gpus:{random.choice('AB')}": gpus, "leases": Decimal(1), "gpus": gpus}
                fits.append(store.hold(tenant, lease_id, amounts))
                held = store.used(tenant)
                assert held.get("gpus", 0) <= 24
                assert held.get("gpus:B", 0) <= 8
                store.give_back(lease_id)
            store.run(quotas.release(lease_id))
        return fits

    outcomes = {fit for many in together(THREADS, live) for fit in many}
    assert outcomes == {True, False}, "the limits were never reached: the test shows nothing"
    assert store.used(tenant) == {}
    assert store.all(quotas.RECOUNT) == []


def test_what_is_released_by_many_is_given_back_once(store: Store) -> None:
    tenant = store.tenant(gpus=8, leases=None)
    lease_id, _ = store.admit(tenant, ONE), store.admit(tenant, ONE)
    assert lease_id is not None
    together(8, lambda _: store.run(quotas.release(lease_id)))
    assert store.used(tenant) == ONE


def test_a_request_that_fits_in_part_takes_nothing(store: Store) -> None:
    tenant = store.tenant(gpus=8, leases=0)
    assert store.admit(tenant, ONE) is None
    assert store.used(tenant) == {}


def test_what_has_no_row_to_count_it_is_not_admitted(store: Store) -> None:
    tenant = store.tenant(gpus=8)
    assert store.admit(tenant, ONE) is None
    store.run(quotas.ensure_rows(tenant, ONE))
    assert store.admit(tenant, ONE) is not None


def test_an_admission_has_its_tenants_lock_before_the_quota_that_whoever_changes_the_tenant_wants_next(
    store: Store,
) -> None:
    tenant_id = store.tenant(gpus=8, leases=None)
    with store.database.begin() as connection:
        assert connection.execute(quotas.admit(tenant_id, ONE)).scalar_one()
        with pytest.raises(OperationalError, match='could not obtain lock on row in relation "tenant"'):
            store.run(select(tenant.c.id).with_for_update(key_share=True, nowait=True))
        connection.rollback()


def test_a_row_made_for_counting_leaves_limits_and_use_alone(store: Store) -> None:
    tenant = store.tenant(gpus=1, leases=None)
    assert store.admit(tenant, ONE) is not None
    store.run(quotas.ensure_rows(tenant, ["gpus", "leases", "gpus:A100"]))
    assert store.admit(tenant, ONE) is None
    assert store.used(tenant) == ONE


def test_another_tenants_quota_is_not_touched(store: Store) -> None:
    one, two = store.tenant(gpus=1, leases=None), store.tenant(gpus=1, leases=None)
    assert store.admit(one, ONE) is not None
    assert store.admit(one, ONE) is None
    assert store.admit(two, ONE) is not None


def test_an_offering_that_does_not_fit_leaves_what_the_lease_holds(store: Store) -> None:
    tenant = store.tenant(gpus=4, leases=None, model_A100=None)
    lease_id = store.admit(tenant, ONE)
    assert lease_id is not None
    assert not store.hold(tenant, lease_id, {"gpus": Decimal(8), "gpus:A100": Decimal(8), "leases": Decimal(1)})
    assert store.used(tenant) == ONE
    assert store.hold(tenant, lease_id, {"gpus": Decimal(4), "gpus:A100": Decimal(4), "leases": Decimal(1)})
    assert store.used(tenant) == {"gpus": 4, "gpus:A100": 4, "leases": 1}
    assert store.hold(tenant, lease_id, ONE)
    assert store.used(tenant) == ONE


FOUR = {"gpus": Decimal(4), "leases": Decimal(1)}


def test_leases_that_are_placed_together_fit_together_or_not_at_all(store: Store) -> None:
    tenant = store.tenant(gpus=8, leases=None)
    leases = [lease_id for lease_id in (store.admit(tenant, ONE) for _ in range(3)) if lease_id is not None]
    assert not store.hold_each(tenant, leases, FOUR, Decimal(0))
    assert store.used(tenant) == {"gpus": 3, "leases": 3}
    assert store.hold_each(tenant, leases[:2], {"gpus": Decimal(3), "leases": Decimal(1)}, Decimal(0))
    assert store.used(tenant) == {"gpus": 7, "leases": 3}
    assert store.all(quotas.RECOUNT) == []


def test_what_one_lease_gives_back_another_one_may_take_in_the_same_step(store: Store) -> None:
    tenant = store.tenant(gpus=6, leases=None)
    larger, smaller = store.admit(tenant, {"gpus": Decimal(5), "leases": Decimal(1)}), store.admit(tenant, ONE)
    assert larger is not None
    assert smaller is not None
    assert store.hold_each(tenant, [larger, smaller], {"gpus": Decimal(3), "leases": Decimal(1)}, Decimal(0))
    assert store.used(tenant) == {"gpus": 6, "leases": 2}
    assert store.all(quotas.RECOUNT) == []


SPENDING = {**ONE, "spend_per_hour": Decimal(2)}
PLANNED = {"gpus": Decimal(4), "gpus:A100": Decimal(4), "leases": Decimal(1), "spend_per_hour": Decimal(1)}


def test_a_refund_gives_back_what_falls_also_where_what_rises_does_not_fit(store: Store) -> None:
    tenant = store.tenant(gpus=8, leases=None, model_A100=None, spend_per_hour=2)
    refused = store.admit(tenant, SPENDING)
    assert refused is not None
    assert store.hold(tenant, refused, PLANNED), "the price has fallen since"
    other = store.admit(tenant, {**ONE, "spend_per_hour": Decimal(1)})
    assert other is not None, "another lease takes the spend that became free"
    store.give_back(refused)
    assert store.used(tenant) == {"gpus": 2, "leases": 2, "spend_per_hour": 2}
    assert store.all(quotas.RECOUNT) == []
    for lease_id in (refused, other):
        store.run(quotas.release(lease_id))
    assert store.used(tenant) == {}


def test_what_rises_in_a_refund_rises_as_a_whole_or_not_at_all(store: Store) -> None:
    tenant = store.tenant(gpus=8, leases=None, model_A100=None, spend_per_hour=2)
    lease_id = store.admit(tenant, {"gpus": Decimal(4), "leases": Decimal(1), "spend_per_hour": Decimal(2)})
    assert lease_id is not None
    assert store.hold(tenant, lease_id, {**ONE, "gpus:A100": Decimal(1), "spend_per_hour": Decimal(1)})
    store.run(text("""UPDATE quota SET "limit" = 1 WHERE resource = 'spend_per_hour'"""))
    store.give_back(lease_id)
    assert store.used(tenant) == {"gpus": 1, "leases": 1, "spend_per_hour": 1}
    store.run(text("""UPDATE quota SET "limit" = 2 WHERE resource = 'spend_per_hour'"""))
    store.give_back(lease_id)
    assert store.used(tenant) == {"gpus": 4, "leases": 1, "spend_per_hour": 2}


def test_a_lease_ends_also_where_the_count_is_wrong(store: Store) -> None:
    tenant = store.tenant(gpus=8, leases=None)
    lease_id = store.admit(tenant, {"gpus": Decimal(4), "leases": Decimal(1)})
    assert lease_id is not None
    store.run(text("UPDATE quota SET used = 1 WHERE resource = 'gpus'"))
    assert store.hold(tenant, lease_id, ONE)
    store.run(text("UPDATE quota SET used = 0 WHERE resource = 'gpus'"))
    store.run(quotas.release(lease_id))
    assert store.used(tenant) == {}


def test_holding_the_same_again_changes_nothing_even_over_a_lowered_limit(store: Store) -> None:
    tenant = store.tenant(gpus=2, leases=None)
    lease_id = store.admit(tenant, {"gpus": Decimal(2), "leases": Decimal(1)})
    assert lease_id is not None
    store.run(text("""UPDATE quota SET "limit" = 0 WHERE resource = 'gpus'"""))
    assert store.hold(tenant, lease_id, {"gpus": Decimal(2), "leases": Decimal(1)})
    assert store.hold(tenant, lease_id, ONE)
    assert not store.hold(tenant, lease_id, {"gpus": Decimal(2), "leases": Decimal(1)})


CASES = list(product(["gpus", "leases", "gpus:A100", "spend_per_hour"], [None, 0, 2], [0, 1, 2], [1, 2]))


def test_the_statement_states_the_rule_of_the_domain(store: Store) -> None:
    for resource, limit, used, asked in CASES:
        tenant = store.tenant(**{resource.replace("gpus:", "model_"): 100})
        if used:
            assert store.admit(tenant, {resource: Decimal(used)}) is not None
        store.run(text(f"""UPDATE quota SET "limit" = {"NULL" if limit is None else limit}"""))
        fits = store.admit(tenant, {resource: Decimal(asked)}) is not None
        bound = Decimal(limit) if limit is not None else None
        assert fits == allowed(resource, limit=bound, used=Decimal(used), delta=Decimal(asked)), (resource, limit, used)


def test_use_below_zero_cannot_be_written(store: Store) -> None:
    tenant = store.tenant(gpus=8)
    with pytest.raises(IntegrityError, match="ck_quota_amounts"):
        store.run(text(f"UPDATE quota SET used = -1 WHERE tenant_id = '{tenant}'"))

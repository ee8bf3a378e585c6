"""What is free in a reservation: the provider's number, less the attempts that it cannot contain yet."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, insert, select, update

from app.db.core.ids import new_id
from app.db.fleet import reservations
from app.db.fleet.offerings import type_columns
from app.db.schema.tables import account, account_region, attempt, lease, reservation
from app.domain.offerings import Gpu, InstanceType, Interconnect
from app.domain.reservations import ENDING_MARGIN
from tests.db.store import Store, ago, ahead, together

HERE = {"account": "main", "reservation": "lab", "market": "reserved"}


@pytest.fixture
def bought(store: Store) -> Store:
    """Two machines, both free when the provider was asked a minute ago."""
    store.run(insert(account).values(name="main", provider="aws", config={}))
    gpu = Gpu(model="A10G", count=1, memory_gib=24, interconnect=Interconnect.PCIE)
    kind = InstanceType(name="g5.xlarge", gpu=gpu, vcpus=4, memory_gib=Decimal(16))
    place = {"provider": "aws", "region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge"}
    facts: dict[str, Any] = {"price_per_hour": 0, "tenants": [], "slots": 2, "free": 2}
    store.run(
        insert(reservation).values(
            account="main",
            name="lab",
            kind="capacity_reservation",
            observed_at=ago("1 minute"),
            **place,
            **type_columns(kind),
            **facts,
        )
    )
    return store


def free(store: Store) -> int:
    (row,) = store.all(reservations.read("main", "lab"))
    number: int = row.free_now
    return number


def test_a_reservation_is_cordoned_with_its_zone(bought: Store) -> None:
    cordon: dict[str, Any] = {"zone": "us-east-1a", "instance_type": None, "market": None}
    bought.run(insert(account_region).values(account="main", region="us-east-1", cordons=[cordon]))

    def is_cordoned() -> bool:
        (row,) = bought.all(reservations.candidates())
        return reservations.reserved_offering(row).cordoned

    assert is_cordoned()
    bought.run(update(account_region).values(cordons=[{**cordon, "market": "spot"}]))
    assert not is_cordoned()


def test_an_attempt_holds_its_slot_until_the_provider_reports_it(bought: Store) -> None:
    assert free(bought) == 2
    bought.attempt(bought.lease(), **HERE)
    assert free(bought) == 1
    bought.attempt(bought.lease(), "known", known_at=ago("10 seconds"), **HERE)
    assert free(bought) == 0
    bought.run(reservation.update().values(observed_at=func.now(), free=1))
    assert free(bought) == 0, "one is reported by the provider, one is still planned"
    bought.run(attempt.update().where(attempt.c.state == "planned").values(state="refused", ended_at=func.now()))
    assert free(bought) == 1
    bought.run(reservation.update().values(free=2))
    assert free(bought) == 1, "slots less what is under way, whatever the provider reports"


def test_leases_that_are_placed_at_the_same_time_get_no_more_than_the_slots(bought: Store) -> None:
    leases = [bought.lease() for _ in range(6)]

    def place(number: int) -> bool:
        with bought.database.begin() as connection:
            connection.execute(reservations.lock("main", "lab"))
            row = connection.execute(reservations.read("main", "lab")).one()
            if row.free_now <= 0:
                return False
            facts = {"id": new_id("attempt"), "lease_id": leases[number], "tenant_id": bought.tenant_id, "n": 1}
            plain = {"provider": "aws", "region": "r", "zone": "z", "instance_type": "t", "offering": {}}
            made = {**facts, **plain, **HERE, "price_per_hour": 0, "token": facts["id"], "params_hash": "h"}
            connection.execute(insert(attempt).values(**made))
            connection.execute(lease.update().where(lease.c.id == leases[number]).values(attempts_count=1))
        return True

    assert sum(together(6, place)) == 2
    assert free(bought) == 0


def test_a_reservation_that_ends_earlier_shortens_the_leases_in_it(bought: Store) -> None:
    inside = bought.lease(placement={"reservation": "lab", "reserved_until": "2999-01-01T00:00:00Z"})
    bought.attempt(inside, "known", reserved_until=ahead("1 day"), **HERE)
    ends_at = bought.all(select(func.now()))[0][0] + timedelta(hours=1)
    with bought.database.begin() as connection:
        connection.execute(reservations.shorten_leases("main", "lab", ends_at))
        connection.execute(reservations.shorten_attempts("main", "lab", ends_at))
    until = ends_at - ENDING_MARGIN
    assert [row.reserved_until for row in bought.rows(attempt)] == [until]
    assert bought.row(lease, inside).placement["reserved_until"] == until.isoformat().replace("+00:00", "Z")
    assert bought.changed(reservations.shorten_attempts("main", "lab", ends_at + timedelta(days=2))) == 0


def test_a_reservation_that_was_not_read_keeps_its_row_while_it_is_configured(bought: Store) -> None:
    bought.run(reservations.forget_others("main", "us-east-1", {"lab": "g5.xlarge"}))
    assert [row.name for row in bought.rows(reservation)] == ["lab"]
    bought.run(reservations.forget_others("main", "us-east-1", {"lab": "g5.2xlarge"}))
    assert bought.rows(reservation) == []


def test_a_tenant_sees_the_reservations_that_it_may_use(bought: Store, database_url: str) -> None:
    mine, other = bought.tenant(), bought.tenant()
    bought.run(reservation.update().values(tenants=[mine]))
    with psycopg.connect(database_url) as connection:
        connection.execute("SET ROLE gpulease_api")
        for tenant, names in ((mine, ["lab"]), (other, []), ("*", ["lab"])):
            connection.execute("SELECT set_config('gpulease.tenant', %s, false)", [tenant])
            assert [name for (name,) in connection.execute("SELECT name FROM reservation")] == names

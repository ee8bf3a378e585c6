"""What is quoted is what is reserved and billed: at constant prices nothing that was admitted or extended ends early."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, insert, select, text, update

from app.db.fleet.accounts import save_image_size
from app.db.schema.tables import api_key, offering, part_price, quota_claim
from app.domain.billing import cost
from app.domain.budgets import resource_of
from app.domain.ids import LeaseId, TenantId
from app.domain.vm_parts import image_key
from cloudsim.testing import Control
from tests.api.conftest import Caller, serving, written_operator, written_tenant
from tests.db.store import make_budget
from tests.harness.cached_settings import read_settings
from tests.harness.databases import Databases
from tests.workers.cloud_samples import AWS, CloudSample
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from tests.workers.virtual_time import SCHEMA, VirtualTime
from workers.jobs.budgets import apply_budgets
from workers.jobs.price_changes import find_price_changes, record_price_changes

MILLIONTH = Decimal("0.000001")
Talk = Callable[[Callable[[Caller], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture
def talk(database_url: str, broker_url: str, databases: Databases, virtual_time: VirtualTime) -> Iterator[Talk]:
    """Runs a conversation of an operator with the API. Each has an API of its own, in the time of the test."""
    del virtual_time  # it has made the schema
    databases.add(_SEARCH_PATH.format(f"SET search_path = {SCHEMA}, pg_catalog, public"), {})
    api_settings = read_settings(database_url=database_url, broker_url=broker_url)

    def run(conversation: Callable[[Caller], Coroutine[Any, Any, Any]]) -> Any:
        async def within() -> Any:
            async with serving(api_settings) as app, Caller(app, written_operator(databases)) as operator:
                return await conversation(operator)

        return asyncio.run(within())

    yield run
    databases.add(_SEARCH_PATH.format("RESET search_path"), {})


_SEARCH_PATH = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %%I {}', current_database()); END $$"


@dataclass(frozen=True, kw_only=True)
class Case:
    """An account, a request and limits. `limits`: of budgets, (kind, period, when_exceeded). `extended`: by seconds."""

    disk_gib: int = 30
    public_ip: bool = True
    image: str | None = None
    data_disk_gib: int | None = None
    public_addresses: bool = True
    market: str = "on_demand"
    ttl: int = 3600
    extended: int = 0
    capped: bool = True
    limits: tuple[tuple[str, str, str], ...] = (("tenant", "lifetime", "end"),)

    @property
    def account_text(self) -> str:
        """What follows in the accounts file."""
        disk = "" if self.data_disk_gib is None else f"data_disk_gib = {self.data_disk_gib}\n"
        return f"{disk}public_addresses = {str(self.public_addresses).lower()}\n"


def price_parts(fleet: Fleet, region: str) -> None:
    """Prices of the disk and the address whose rates are not round."""
    here = {"account": ACCOUNT, "region": region, "instance_type": "*"}
    origin = {"price_as_of": func.now(), "price_source": "test", "price_live": True}
    fleet.runtime.database.run(text("DELETE FROM part_price"))
    for part, price in (("disk", "0.0817"), ("address", "0.005003")):
        fleet.runtime.database.run(insert(part_price).values(**here, **origin, part=part, price=Decimal(price)))
    fleet.runtime.catalogue.forget()


@dataclass(frozen=True, kw_only=True)
class Leased:
    """A lease whose budgets and cap are exactly its quoted total, with its extension."""

    lease_id: LeaseId
    quote: Any
    amount: Decimal
    budgets: tuple[str, ...]


def create(fleet: Fleet, talk: Talk, databases: Databases, case: Case, sample: CloudSample) -> Leased:
    """Quotes, sets the limits to the quoted total, and creates the lease from the quote."""
    body = {
        "instance_types": [sample.instance_type],
        "disk_gib": case.disk_gib,
        "public_ip": case.public_ip,
        "image": case.image,
    }
    body |= {"market": case.market, "ttl_seconds": case.ttl, "labels": {"team": "a"}}

    async def converse(operator: Caller) -> Leased:
        admin = written_tenant(databases, operator.app, f"tenant-{next(_NUMBERS)}")
        member = await admin.member("member")
        quoted = await member.post("/v1/quotes", json=body)
        assert quoted.status_code == 201, quoted.text
        quote = quoted.json()
        total, rate = Decimal(quote["total"]), Decimal(quote["price_per_hour"])
        assert total == (rate * case.ttl / 3600).quantize(MILLIONTH, rounding=ROUND_CEILING)
        amount = (rate * (case.ttl + case.extended) / 3600).quantize(MILLIONTH, rounding=ROUND_CEILING)
        budgets = tuple(_budget(fleet, member, limit, amount) for limit in case.limits)
        cap = {"max_cost": str(amount)} if case.capped else {}
        made = await member.post("/v1/leases", json={"quote_id": quote["id"], **cap})
        assert made.status_code == 201, made.text
        if case.extended:
            path = f"/v1/leases/{made.json()['id']}/extend"
            extended = await member.post(path, json={"extend_by_seconds": case.extended})
            assert extended.status_code == 200, extended.text
        return Leased(lease_id=LeaseId(made.json()["id"]), quote=quote, amount=amount, budgets=budgets)

    leased: Leased = talk(converse)
    return leased


_NUMBERS = count()


def _budget(fleet: Fleet, member: Caller, limit: tuple[str, str, str], amount: Decimal) -> str:
    kind, period, when = limit
    own: dict[str, Any] = {"kind": kind, "period": period, "when_exceeded": when}
    if kind == "key":
        whose = (api_key.c.tenant_id == member.tenant_id, api_key.c.role == "member")
        (own["key_id"],) = fleet.runtime.database.all(select(api_key.c.id).where(*whose))[0]
    if kind == "label":
        own |= {"label_key": "team", "label_value": "a"}
    return make_budget(fleet.runtime.database, TenantId(member.tenant_id), amount, **own)


def check_planning(fleet: Fleet, leased: Leased, case: Case) -> None:
    """What the attempt is billed is what was quoted, and what the lease holds of each budget."""
    (attempt,) = fleet.attempts(leased.lease_id)
    row = fleet.lease(leased.lease_id)
    rate = attempt.price_per_hour + attempt.disk_price_per_hour + attempt.address_price_per_hour
    assert rate == row.rate_per_hour == Decimal(leased.quote["price_per_hour"])
    assert attempt.disk_gib == leased.quote["plan"]["candidates"][0]["disk_gib"]
    assert (attempt.address_price_per_hour > 0) == (case.public_ip and case.public_addresses)
    if any(period != "lifetime" for _, period, _ in case.limits):
        return  # a period may end within the term
    held = cost(rate, row.expires_at - attempt.created_at).quantize(MILLIONTH, ROUND_CEILING)
    claims = select(quota_claim).where(quota_claim.c.resource.in_([resource_of(one) for one in leased.budgets]))
    assert {claim.amount for claim in fleet.runtime.database.all(claims)} <= {held}


def live_to_the_end(fleet: Fleet, leased: Leased) -> Any:
    """Lets the whole term pass, with the jobs of budgets. Returns the ended lease."""
    while (row := fleet.lease(leased.lease_id)).ended_at is None:
        assert row.reason is None or row.reason["code"] == "expired", row.reason
        left = (row.expires_at - fleet.now()).total_seconds()
        fleet.let_pass(max(1.0, min(left - 1, (row.expires_at - row.created_at).total_seconds() / 5)))
        apply_budgets(fleet.runtime, "", "")
        fleet.observe()
        while fleet.step():
            pass
    return row


def check_life(fleet: Fleet, talk: Talk, databases: Databases, case: Case, sample: CloudSample) -> None:
    """From the quote to the expiry."""
    leased = create(fleet, talk, databases, case, sample)
    fleet.drive_to(leased.lease_id, "active")
    check_planning(fleet, leased, case)
    ended = live_to_the_end(fleet, leased)
    assert ended.reason["code"] == "expired"
    assert ended.release_requested_at >= ended.expires_at
    # the time that the end takes is billed, beyond the term
    late = cost(Decimal(leased.quote["price_per_hour"]), ended.billing_ended_at - ended.expires_at)
    assert ended.cost_closed <= leased.amount + late


_LARGE_IMAGES = {
    "gcp": "projects/deeplearning-platform-release/global/images/family/common-cu129-ubuntu-2404-nvidia-580"
}
"""An image that is larger than the smallest disk, where the default image is not."""


def test_a_lease_whose_price_is_exactly_its_budget_runs_to_its_end(
    start_at_cloud: Callable[..., Fleet],
    cloud: CloudSample,
    sim: Control,
    tmp_path: Path,
    talk: Talk,
    databases: Databases,
) -> None:
    named = _LARGE_IMAGES.get(cloud.provider)
    case = Case(
        image=None if named is None else "large",
        data_disk_gib=50,
        limits=(("tenant", "lifetime", "end"), ("key", "lifetime", "refuse")),
    )
    config = cloud.write_config(tmp_path, sim)
    images = "" if named is None else f'images = {{ large = "{named}" }}\n'
    config.write_text(config.read_text() + case.account_text + images)
    fleet = start_at_cloud(config=config)
    price_parts(fleet, cloud.region)
    image = fleet.runtime.accounts.image(ACCOUNT, cloud.region, case.image)
    assert image.disk_gib > case.disk_gib
    check_life(fleet, talk, databases, case, cloud)


@settings(max_examples=12, phases=[Phase.generate])
@given(
    st.builds(
        Case,
        disk_gib=st.sampled_from([30, 75, 76, 200]),
        public_ip=st.booleans(),
        data_disk_gib=st.sampled_from([None, 10, 333]),
        public_addresses=st.booleans(),
        ttl=st.sampled_from([600, 3601, 85_000]),
        extended=st.sampled_from([0, 601]),
        capped=st.booleans(),
        limits=st.lists(
            st.tuples(
                st.sampled_from(["tenant", "key", "label"]),
                st.sampled_from(["lifetime", "day", "month"]),
                st.sampled_from(["refuse", "end"]),
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    )
)
def test_at_constant_prices_nothing_that_was_quoted_admitted_or_extended_ends_early(
    start_at_aws: Callable[[Case], Fleet], talk: Talk, databases: Databases, case: Case
) -> None:
    check_life(start_at_aws(case), talk, databases, case, AWS)


@pytest.fixture
def start_at_aws(make_fleet: Callable[..., Fleet], sim: Control, tmp_path: Path) -> Callable[[Case], Fleet]:
    """Starts a worker whose account is that of a case."""

    def start(case: Case) -> Fleet:
        config = AWS.write_config(tmp_path, sim)
        own = config.with_name(f"{next(_NUMBERS)}.toml")
        own.write_text(config.read_text() + case.account_text)
        fleet = make_fleet(config=own)
        price_parts(fleet, REGION)
        return fleet

    return start


def test_a_launch_whose_image_has_grown_above_the_quote_is_refused_in_words(
    start_at_aws: Callable[[Case], Fleet], talk: Talk, databases: Databases
) -> None:
    case = Case(limits=())
    fleet = start_at_aws(case)
    fleet.runtime.database.run(save_image_size(ACCOUNT, REGION, image_key(None, "nvidia"), 40))
    leased = create(fleet, talk, databases, case, AWS)
    assert leased.quote["plan"]["candidates"][0]["disk_gib"] == 40
    failed = fleet.drive_to(leased.lease_id, "failed")
    assert failed.reason["code"] == "price_cap"
    assert f"the quote covers {leased.quote['price_per_hour']}" in failed.reason["message"]
    assert (fleet.attempts(leased.lease_id), fleet.runs()) == ([], 0)


def test_a_spot_vm_that_is_repriced_above_its_quote_goes_on_until_its_cap(
    start_at_aws: Callable[[Case], Fleet], talk: Talk, databases: Databases
) -> None:
    case = Case(market="spot", limits=())
    fleet = start_at_aws(case)
    leased = create(fleet, talk, databases, case, AWS)
    before = fleet.drive_to(leased.lease_id, "active")
    dearer = Decimal(leased.quote["price_per_hour"]) * 2
    fleet.runtime.database.run(update(offering).values(price_per_hour=dearer, price_live=True))
    with fleet.runtime.database.begin() as connection:
        changes = find_price_changes(connection, fleet.runtime, ACCOUNT, REGION)
    assert record_price_changes(fleet.runtime, changes) == 1
    fleet.let_pass(60)
    fleet.observe()
    while fleet.step():
        pass
    after = fleet.lease(leased.lease_id)
    assert (after.state, after.max_rate) == ("active", Decimal(leased.quote["price_per_hour"]))
    assert after.rate_per_hour > after.max_rate
    assert before.cost_reached_at > before.expires_at > after.cost_reached_at, "the cap limits what it costs"

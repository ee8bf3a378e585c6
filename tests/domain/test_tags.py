"""Tags: what we write comes back, and what others write is never taken for ours."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ids import LeaseId, TenantId
from app.domain.tags import ATTEMPT, DEADLINE, LABEL_PREFIX, LEASE, OwnerTags, attempt_key, deadline, name
from tests.domain import samples

OWNER = OwnerTags(
    installation="gpl-0123456789ab",
    lease_id=samples.LEASE,
    n=3,
    tenant_id=samples.TENANT,
    params_hash="0123456789abcdef",
    deadline_at=datetime(2026, 6, 1, 12, 30, tzinfo=UTC),
)
TAGS = OWNER.as_tags()
owners = st.builds(
    OwnerTags,
    installation=st.from_regex(r"[a-z0-9-]{4,40}", fullmatch=True),
    lease_id=st.text().map(LeaseId),
    n=st.integers(1, 999_999_999),
    tenant_id=st.text().map(TenantId),
    params_hash=st.text(),
    deadline_at=st.integers(0, 4_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, tz=UTC)),
)


@given(owners)
def test_what_is_written_is_read_back(owner: OwnerTags) -> None:
    assert OwnerTags.parse(owner.as_tags()) == owner


@given(owners, st.dictionaries(st.text().map(lambda name: LABEL_PREFIX + name), st.text()))
def test_a_tenants_labels_never_overwrite_ours(owner: OwnerTags, labels: dict[str, str]) -> None:
    assert OwnerTags.parse({**owner.as_tags(), **labels}) == owner


def test_keys_and_values_suit_every_cloud() -> None:
    for key, value in TAGS.items():
        assert key == key.lower()
        assert len(key) <= 63
        assert not set(key) & set(" /")
        assert len(value) <= 63


@pytest.mark.parametrize("missing", sorted(set(TAGS) - {DEADLINE}))
def test_without_any_one_tag_it_is_none_of_ours(missing: str) -> None:
    assert OwnerTags.parse({key: value for key, value in TAGS.items() if key != missing}) is None


HOSTILE = [
    "",
    "0",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1_0",
    "01",
    "1.0",
    "1e3",
    "0x1",
    "٣",
    "²",
    "NaN",
    "9" * 10,
    "9" * 5000,
    "1\n",
]


@pytest.mark.parametrize("number", HOSTILE, ids=ascii)
def test_an_attempt_number_that_we_would_not_write_is_none_of_ours(number: str) -> None:
    assert OwnerTags.parse({**TAGS, ATTEMPT: number}) is None


@given(st.dictionaries(st.sampled_from([*TAGS, "Name", "other"]), st.text(), max_size=7))
def test_strangers_tags_never_raise(tags: dict[str, str]) -> None:
    found = OwnerTags.parse(tags)
    assert found is None or found.lease_id == tags[LEASE]
    deadline(tags)


@pytest.mark.parametrize("text", ["", "soon", "1e9", "9" * 30, "-" + "9" * 30, "9" * 5000, "1750000000.5"])
def test_a_deadline_that_cannot_be_read_is_none_and_ends_nothing(text: str) -> None:
    assert deadline({**TAGS, DEADLINE: text}) is None
    found = OwnerTags.parse({**TAGS, DEADLINE: text})
    assert found is not None
    assert found.deadline_at > samples.NOW + timedelta(days=365_000)


def test_a_deadline_is_whole_seconds_and_never_later_than_meant() -> None:
    late = OwnerTags(
        installation="gpl-1",
        lease_id=samples.LEASE,
        n=1,
        tenant_id=samples.TENANT,
        params_hash="x",
        deadline_at=samples.NOW + timedelta(seconds=0.9),
    )
    assert deadline(late.as_tags()) == samples.NOW


def test_the_attempt_that_a_resource_names() -> None:
    assert attempt_key(TAGS) == (samples.LEASE, 3)
    for wrong in ({LEASE: ""}, {ATTEMPT: "0"}, {ATTEMPT: "+3"}, {ATTEMPT: "٣"}, {ATTEMPT: ""}):
        assert attempt_key({**TAGS, **wrong}) is None
    assert attempt_key({}) is None


def test_the_name_is_read_in_the_form_of_every_cloud() -> None:
    assert name({"Name": "train"}) == name({"name": "train"}) == "train"
    assert name({**TAGS, "Name": ""}) is None

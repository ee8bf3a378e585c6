"""TypeIDs."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ids import is_typeid, typeid


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("00000000-0000-0000-0000-000000000000", "prefix_00000000000000000000000000"),
        ("00000000-0000-0000-0000-000000000001", "prefix_00000000000000000000000001"),
        ("00000000-0000-0000-0000-00000000000a", "prefix_0000000000000000000000000a"),
        ("00000000-0000-0000-0000-000000000010", "prefix_0000000000000000000000000g"),
        ("00000000-0000-0000-0000-000000000020", "prefix_00000000000000000000000010"),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", "prefix_7zzzzzzzzzzzzzzzzzzzzzzzzz"),
        ("0188bac7-4afa-78aa-bc3b-bd1eef28d881", "prefix_01h2xcejqtf2nbrexx3vqjhp41"),
    ],
)
def test_ids_are_written_as_the_specification_says(value: str, text: str) -> None:
    """The valid examples of the TypeID specification 0.3."""
    assert typeid("prefix", UUID(value)) == text


@given(st.uuids(), st.uuids())
def test_ids_sort_as_their_values_do(one: UUID, two: UUID) -> None:
    assert (typeid("lease", one) < typeid("lease", two)) == (one.int < two.int)


@given(st.uuids(), st.sampled_from(["lease", "tenant", "api_key"]))
def test_every_id_made_is_recognised_under_its_own_prefix_alone(value: UUID, prefix: str) -> None:
    text = typeid(prefix, value)
    assert is_typeid(prefix, text)
    assert not is_typeid(prefix + "x", text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lease",
        "lease_",
        "lease_0000000000000000000000000",
        "lease_000000000000000000000000000",
        "lease_80000000000000000000000000",
        "lease_0000000000000000000000000U",
        "lease_0000000000000000000000000l",
        "lease_0000000000000000000000000A",
        "lease_00000000000000000000000000\n",
        " lease_00000000000000000000000000",
        "Lease_00000000000000000000000000",
        "tenant_00000000000000000000000000",
        "lease__00000000000000000000000000",
        "lease_0000000000000000000000000'",
        "lease_\u06600000000000000000000000000",
    ],
    ids=ascii,
)
def test_what_is_malformed_is_no_id(text: str) -> None:
    assert not is_typeid("lease", text)

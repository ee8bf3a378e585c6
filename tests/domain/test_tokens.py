"""Launch tokens and parameter hashes: derived, so that a repeat is the same request, on any host, in any year."""

import hashlib
import json
from string import hexdigits
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.ids import BatchId, LeaseId
from app.domain.tokens import (
    batch_key,
    batch_token,
    host_key_hash,
    host_key_token,
    is_genuine,
    is_launch_identity,
    launch_name,
    launch_token,
    params_hash,
    slot_secret,
    slot_token,
)
from tests.domain.samples import LEASE

KEY = bytes(range(32))
FEW = 25
"""Making documents takes longer than hashing them, and the tenth looks as the hundredth to a hash."""
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_token_is_what_it_has_always_been() -> None:
    """Computed once with `openssl dgst -sha256 -mac hmac`: a change would launch second VMs after an upgrade."""
    expected = "1ae5328cbfe4af3e06a87eae453cd7fcdf045aed282b0799104c6568941bc82a"
    assert launch_token(KEY, "gpl-0123456789ab", LEASE, 1) == expected


def test_the_hash_is_what_it_has_always_been() -> None:
    """SHA-256 of `{"a":[1,"\\u00e9"],"b":null}`, its first 16 digits."""
    assert params_hash({"b": None, "a": [1, "é"]}) == "e6ad993c7a569e94"


@given(st.text(max_size=40), st.text(max_size=40), st.integers(1, 10**6))
def test_a_token_is_64_hexadecimal_characters(installation: str, lease_id: str, n: int) -> None:
    token = launch_token(KEY, installation, LeaseId(lease_id), n)
    assert len(token) == 64
    assert set(token) <= set(hexdigits.lower())


def test_another_key_installation_lease_or_attempt_gives_another_token() -> None:
    other = LeaseId(LEASE[:-1] + "2")
    tokens = [
        launch_token(KEY, "one", LEASE, 1),
        launch_token(KEY, "one", LEASE, 2),
        launch_token(KEY, "one", other, 1),
        launch_token(KEY, "two", LEASE, 1),
        launch_token(KEY[::-1], "one", LEASE, 1),
    ]
    assert len(set(tokens)) == len(tokens)


@settings(max_examples=FEW)
@given(st.dictionaries(st.text(), values, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_parameters_does_not_change_their_hash(params: dict[str, Any], random: Any) -> None:
    items = list(params.items())
    random.shuffle(items)
    assert params_hash(dict(items)) == params_hash(params)


@settings(max_examples=FEW)
@given(st.dictionaries(st.text(), values, min_size=1, max_size=5))
def test_another_value_gives_another_hash(params: dict[str, Any]) -> None:
    name = next(iter(params))
    assert params_hash({**params, name: [params[name]]}) != params_hash(params)


def test_the_token_for_host_keys_is_another_one_and_only_its_hash_is_kept() -> None:
    token = host_key_token(KEY, "gpl-0123456789ab", LEASE, 1)
    assert token == "de2495150f415dfd8802eba18da563fcda229732dfb390cd2ab93b49fa86f367"
    assert token != launch_token(KEY, "gpl-0123456789ab", LEASE, 1)
    assert host_key_hash(token) == hashlib.sha256(token.encode()).digest()


keys = st.binary(min_size=32, max_size=32)
names = st.from_regex(r"[a-z0-9_-]{1,30}", fullmatch=True)
launches = st.tuples(keys, names, names.map(LeaseId), st.integers(1, 999_999_999))


@given(launches)
def test_a_vm_is_genuine_by_the_token_or_the_name_of_its_launch(launch: tuple[bytes, str, LeaseId, int]) -> None:
    token = launch_token(*launch)
    for identity in (token, launch_name(token)):
        assert is_genuine(identity, token)
        assert is_launch_identity(identity)


@given(launches, launches)
def test_a_vm_of_another_launch_is_not_genuine(
    launch: tuple[bytes, str, LeaseId, int], other: tuple[bytes, str, LeaseId, int]
) -> None:
    """Another lease, attempt, installation or token key."""
    token, another = launch_token(*launch), launch_token(*other)
    assert is_genuine(another, token) == (launch == other)
    assert is_genuine(launch_name(another), token) == (launch == other)


@given(launches, st.none() | st.text() | st.from_regex(r"gpulease-[0-9a-f]{1,39}|[0-9A-F]{64}", fullmatch=True))
def test_what_somebody_else_named_is_never_genuine(launch: tuple[bytes, str, LeaseId, int], identity: str) -> None:
    assert not is_genuine(identity, launch_token(*launch))


@pytest.mark.parametrize("cut", [slice(0, 63), slice(0, 40), slice(1, 64)])
def test_a_part_of_a_token_is_no_identity(cut: slice) -> None:
    token = launch_token(KEY, "gpl-0123456789ab", LEASE, 1)
    assert not is_genuine(token[cut], token)
    assert not is_launch_identity(token[cut])
    assert not is_launch_identity(f"{launch_name(token)}-1"), "what a cloud's console names a copy"


def test_a_name_fits_every_cloud() -> None:
    assert (
        launch_name(launch_token(KEY, "gpl-0123456789ab", LEASE, 1))
        == "gpulease-1ae5328cbfe4af3e06a87eae453cd7fcdf045aed"
    )


def test_the_tokens_of_a_batch_are_what_they_have_always_been() -> None:
    """Computed once with `openssl dgst -sha256 -mac hmac`: an upgrade repeats calls of unknown outcome."""
    batch = BatchId("batch_01jz0000000000000000000001")
    token, secret = batch_token(KEY, "gpl-0123456789ab", batch), slot_secret(KEY, "gpl-0123456789ab", batch)
    assert token == "d2b4dbcab7006cdb589ec0bd7dbfd538c14598345188b8562a4e3421492c9caf"
    assert secret == "3388cb892c5004178487c5623c11c471f9a2aa44be1dc3701dc0af52fddda2fa"
    assert slot_token(secret, "agent", 7) == "05b2f80e77a3b24b75c6c705c111e65ca7fb2e085d15f1a8f5d788720f055add"
    assert is_launch_identity(token)


wishes = st.dictionaries(st.sampled_from("ab"), st.sampled_from([None, False, True, 0, 1, "1", [1], {"b": 1}]))
"""So few that two of them are often equal, or differ in one value alone."""


@given(wishes, wishes)
def test_only_equal_wishes_have_the_same_batch_key(one: dict[str, Any], other: dict[str, Any]) -> None:
    """As JSON: to Python 1 equals true."""
    equal = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (batch_key(one) == batch_key(other)) == equal

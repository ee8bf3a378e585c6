"""One id that EC2 does not take fails a whole call: the others are done all the same, whatever EC2's message names."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.aws.calls import in_bulk
from workers.providers.common.batch import chunks
from workers.providers.errors import (
    CredentialsRejected,
    InvalidSpec,
    NotFound,
    OutcomeUnknown,
    ProviderError,
    Throttled,
)

IDS = [f"i-{n:017x}" for n in range(1, 21)]
KINDS = (NotFound, InvalidSpec)


class Ec2Like:
    """Fails as a whole when it does not take one id, naming at most `named` of those that it does not take."""

    def __init__(self, refused: Mapping[str, type[ProviderError]], named: int) -> None:
        self.refused = refused
        self.named = named
        self.calls = 0
        self.done: list[str] = []

    def __call__(self, ids: list[str]) -> list[str]:
        self.calls += 1
        bad = [one for one in ids if one in self.refused]
        if bad:
            alike = [one for one in bad if self.refused[one] is self.refused[bad[0]]]
            raise self.refused[bad[0]](f"The instances '{', '.join(alike[: self.named])}' are not taken", code="x")
        self.done += ids
        return ids


@given(
    refused=st.dictionaries(st.sampled_from(IDS), st.sampled_from(KINDS)),
    named=st.integers(0, 20),
    size=st.sampled_from([3, 8, 20]),
)
def test_every_id_is_done_once_or_refused_with_its_own_error(
    refused: dict[str, type[ProviderError]], named: int, size: int
) -> None:
    ec2 = Ec2Like(refused, named)
    answers, failed = in_bulk(ec2, IDS, size)
    assert sorted(ec2.done) == sorted(set(IDS) - set(refused))
    assert sorted(one for ids, answer in answers for one in ids if ids == answer) == sorted(ec2.done)
    assert {one: type(error) for one, error in failed.items()} == refused


def test_ids_that_do_not_exist_and_are_named_cost_one_more_call() -> None:
    ec2 = Ec2Like(dict.fromkeys(IDS[:5], NotFound), named=20)
    answers, failed = in_bulk(ec2, IDS, 20)
    assert [ids for ids, _ in answers] == [IDS[5:]]
    assert set(failed) == set(IDS[:5])
    assert ec2.calls == 2


def test_one_protected_id_that_is_named_costs_two_more_calls() -> None:
    ec2 = Ec2Like({IDS[7]: InvalidSpec}, named=1)
    in_bulk(ec2, IDS, 20)
    assert ec2.calls == 3


def test_no_ids_make_no_call() -> None:
    ec2 = Ec2Like({}, named=0)
    assert in_bulk(ec2, [], 20) == ([], {})
    assert ec2.calls == 0


def test_throttling_ends_the_calls_and_is_the_error_of_all_that_are_left() -> None:
    slow = Throttled("slow down")
    calls: list[list[str]] = []

    def throttled(ids: list[str]) -> None:
        calls.append(ids)
        if len(calls) == 2:
            raise slow

    answers, failed = in_bulk(throttled, IDS, 5)
    assert [ids for ids, _ in answers] == [IDS[:5]]
    assert failed == dict.fromkeys(IDS[5:], slow)
    assert len(calls) == 2


def test_a_call_that_may_have_been_done_is_not_repeated_in_parts_and_a_silent_cloud_is_not_asked_on() -> None:
    calls: list[list[str]] = []
    lost = OutcomeUnknown("no answer", answered=False)

    def silent(ids: list[str]) -> None:
        calls.append(ids)
        raise lost

    assert in_bulk(silent, IDS, 5) == ([], dict.fromkeys(IDS, lost))
    assert calls == [IDS[:5], IDS[5:10]]


@pytest.mark.parametrize("position", [0, 57, 99])
def test_one_id_among_many_that_ec2_answers_with_trouble_is_found(position: int) -> None:
    ids = [f"i-{n:017x}" for n in range(100)]
    ec2 = Ec2Like({ids[position]: OutcomeUnknown}, named=0)
    answers, failed = in_bulk(ec2, ids, 100)
    assert sorted(one for some, _ in answers for one in some) == sorted(set(ids) - {ids[position]})
    assert set(failed) == {ids[position]}


def test_a_cloud_in_trouble_is_not_asked_for_each_id() -> None:
    ids = [f"i-{n:017x}" for n in range(100)]
    ec2 = Ec2Like(dict.fromkeys(ids, OutcomeUnknown), named=0)
    answers, failed = in_bulk(ec2, ids, 100)
    assert (answers, set(failed), ec2.calls) == ([], set(ids), 10)


@pytest.mark.parametrize(("code", "calls"), [("AuthFailure", 1), ("UnauthorizedOperation", 39)])
def test_bad_credentials_are_those_of_all_ids_but_rights_may_differ(code: str, calls: int) -> None:
    made: list[list[str]] = []

    def refuse(ids: list[str]) -> None:
        made.append(ids)
        raise CredentialsRejected("not you", code=code)

    answers, failed = in_bulk(refuse, IDS, 20)
    assert (answers, set(failed), len(made)) == ([], set(IDS), calls)


def test_chunks_cover_everything_once() -> None:
    assert list(chunks(IDS, 8)) == [IDS[:8], IDS[8:16], IDS[16:]]
    assert list(chunks([], 8)) == []

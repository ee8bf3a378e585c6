"""Ids that are gone are left out of a call, whatever EC2's message names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.aws.calls import chunks, without_missing
from workers.providers.base import NotFound, Throttled

IDS = [f"i-{n:017x}" for n in range(1, 21)]


class Ec2Like:
    """Fails as a whole when one id is unknown, naming at most `named` of the unknown ones."""

    def __init__(self, known: set[str], named: int) -> None:
        self.known = known
        self.named = named
        self.calls = 0
        self.done: list[str] = []

    def __call__(self, ids: list[str]) -> list[str]:
        self.calls += 1
        unknown = [one for one in ids if one not in self.known]
        if unknown:
            raise NotFound(f"The instance IDs '{', '.join(unknown[: self.named])}' do not exist", code="x")
        self.done += ids
        return ids


@given(known=st.sets(st.sampled_from(IDS)), named=st.integers(0, 20))
def test_what_exists_is_called_exactly_once_and_nothing_else(known: set[str], named: int) -> None:
    ec2 = Ec2Like(known, named)
    answers = list(without_missing(ec2, IDS))
    assert sorted(ec2.done) == sorted(known)
    assert sorted(one for answer in answers for one in answer) == sorted(known)


def test_ids_that_the_message_names_cost_one_more_call() -> None:
    ec2 = Ec2Like(set(IDS[5:]), named=20)
    assert list(without_missing(ec2, IDS)) == [IDS[5:]]
    assert ec2.calls == 2


def test_no_ids_make_no_call() -> None:
    ec2 = Ec2Like(set(), named=0)
    assert list(without_missing(ec2, [])) == []
    assert ec2.calls == 0


def test_other_errors_pass_through() -> None:
    def throttled(_: list[str]) -> None:
        raise Throttled("slow down")

    with pytest.raises(Throttled):
        list(without_missing(throttled, IDS))


def test_chunks_cover_everything_once() -> None:
    assert list(chunks(IDS, 8)) == [IDS[:8], IDS[8:16], IDS[16:]]
    assert list(chunks([], 8)) == []

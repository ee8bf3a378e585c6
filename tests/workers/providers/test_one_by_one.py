"""Questions that go to the cloud for each thing alone."""

from collections.abc import Callable

import pytest

from workers.providers.base import CredentialsRejected, OutcomeUnknown, ProviderError, Throttled
from workers.providers.one_by_one import answered, each

LOST = OutcomeUnknown("no answer")


def answers(**given: bool | ProviderError) -> Callable[[str], bool]:
    def ask(one: str) -> bool:
        answer = given.pop(one)
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    return ask


def test_a_question_that_fails_leaves_its_own_thing_out() -> None:
    assert answered("abc", answers(a=LOST, b=True, c=False)) == {"b": True, "c": False}
    assert answered("", answers()) == {}


def test_without_any_answer_the_first_failure_is_raised() -> None:
    with pytest.raises(OutcomeUnknown) as failed:
        answered("ab", answers(a=LOST, b=OutcomeUnknown("later")))
    assert failed.value is LOST


def test_throttling_ends_the_asking_and_what_is_known_counts() -> None:
    slow = Throttled("slower")
    assert answered("abc", answers(a=False, b=slow)) == {"a": False}
    with pytest.raises(Throttled):
        answered("ab", answers(a=slow))


def test_rejected_credentials_are_never_overlooked() -> None:
    with pytest.raises(CredentialsRejected):
        answered("ab", answers(a=True, b=CredentialsRejected("no")))


def test_an_act_that_fails_keeps_no_other_waiting() -> None:
    done: list[str] = []

    def act(one: str) -> None:
        done.append(one)
        if one == "a":
            raise LOST

    with pytest.raises(OutcomeUnknown):
        each("abc", act)
    assert done == ["a", "b", "c"]

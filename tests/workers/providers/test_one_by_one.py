"""What goes to the cloud for each item alone."""

from collections.abc import Callable

import pytest

from tests.harness.lines import written_by
from workers.providers.common import batch
from workers.providers.common.batch import answered, each
from workers.providers.errors import CredentialsRejected, InvalidSpec, OutcomeUnknown, ProviderError, Throttled

TROUBLE = OutcomeUnknown("trouble", code="E500")
LOCKED = InvalidSpec("locked", code="Locked")
LOST = OutcomeUnknown("no answer", answered=False)


def answers(**given: bool | ProviderError) -> Callable[[str], bool]:
    def ask(one: str) -> bool:
        answer = given.pop(one)
        if isinstance(answer, ProviderError):
            raise answer
        return answer

    return ask


def test_a_question_that_fails_leaves_its_own_item_out_and_says_why() -> None:
    with written_by(log=batch) as lines:
        assert answered("abc", answers(a=TROUBLE, b=True, c=False)) == {"b": True, "c": False}
        assert [(line["item"], line["code"]) for line in lines.new()] == [("a", "E500")]
    assert answered("", answers()) == {}


def test_without_any_answer_the_first_failure_is_raised() -> None:
    with pytest.raises(OutcomeUnknown) as failed:
        answered("ab", answers(a=TROUBLE, b=LOCKED))
    assert failed.value is TROUBLE


def test_throttling_ends_the_asking_and_what_is_known_counts() -> None:
    slow = Throttled("slower")
    assert answered("abc", answers(a=False, b=slow)) == {"a": False}
    with pytest.raises(Throttled):
        answered("ab", answers(a=slow))


def test_rejected_credentials_are_raised_unless_others_were_accepted() -> None:
    no = CredentialsRejected("no")
    with pytest.raises(CredentialsRejected):
        answered("ab", answers(a=no, b=no))
    assert answered("ab", answers(a=True, b=no)) == {"a": True}


def test_an_item_that_refuses_keeps_no_other_waiting() -> None:
    result = each("abcd", answers(a=LOCKED, b=True, c=False, d=True))
    assert result.done == {"b", "d"}, "c is not known"
    assert result.refused == {"a": LOCKED}
    result.require("b", "c", "d")
    with pytest.raises(InvalidSpec):
        result.require("b", "a")


def test_throttling_is_the_error_of_all_items_that_are_left() -> None:
    slow = Throttled("slower")
    result = each("abcd", answers(a=True, b=slow))
    assert result.done == {"a"}
    assert result.refused == dict.fromkeys("bcd", slow)


def test_a_silent_cloud_is_not_asked_on() -> None:
    result = each("abcde", answers(a=LOST, b=True, c=LOST, d=LOST))
    assert result.done == {"b"}
    assert result.refused == dict.fromkeys("acde", LOST)

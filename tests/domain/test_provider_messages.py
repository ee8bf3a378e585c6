"""What tenants read of a provider's answer."""

from collections.abc import Iterator

import pytest

from app.domain.provider_messages import (
    provider_words,
    public_answer,
    public_code,
    public_error,
    public_message,
    why_vm_ended,
)
from workers.providers.aws import error_codes as aws
from workers.providers.azure import errors as azure
from workers.providers.errors import ProviderError
from workers.providers.gcp import errors as gcp

WORDS = ("arn:aws:sts::123456789012:assumed-role/gpulease", "unauthorized", "subnet-0f1e2d3c4b5a69788")
RAW = " ".join(WORDS)


def kinds(of: type[ProviderError] = ProviderError) -> Iterator[str]:
    for kind in of.__subclasses__():
        yield kind.__name__
        yield from kinds(kind)


@pytest.mark.parametrize("code", [None, "UnauthorizedOperation", "Client.UserInitiatedShutdown", "SomethingNew", RAW])
def test_no_word_of_the_provider_gets_through_but_its_code(code: str | None) -> None:
    for kind in {*kinds(), "VmEnded", "NeverSeen", "Lost", "SomethingNew"}:
        error = {"class": kind, "code": code, "message": RAW}
        shown = public_error(error)
        assert set(shown) == {"class", "code", "message"}
        assert shown["code"] == (None if code == RAW else code), kind
        for text in (*shown.values(), public_answer(error), why_vm_ended(error)):
            assert not any(word in (text or "") for word in WORDS), kind


def test_every_class_of_error_has_a_sentence_of_its_own() -> None:
    unknown = public_message("SomethingNew", None)
    assert [kind for kind in kinds() if public_message(kind, None) == unknown] == []


def test_every_known_code_is_shown() -> None:
    codes = [*aws.CODES, *gcp.CODES, *gcp.REASONS, *azure.CODES, "403", "HTTP503", "PowerState/deallocated"]
    assert [public_code(code) for code in codes] == codes


@pytest.mark.parametrize(
    "text",
    [
        "arn:aws:iam::1:role",
        "123456789012",
        "Account123456789012",
        "subnet-0f1e2d3c4b5a69788",
        "9d2c1b0a-8f7e-4d6c-b5a4-392817060504",
        "projects/acme-prod",
        "subscriptions/x",
        "two words",
        "me@example.org",
        "a" * 81,
        "",
    ],
)
def test_what_does_not_look_like_a_code_is_not_shown(text: str) -> None:
    assert public_code(text) is None


def test_the_end_of_a_vm_is_explained() -> None:
    assert why_vm_ended({"code": "Client.InstanceInitiatedShutdown", "message": RAW}) == (
        "it was shut down from inside (Client.InstanceInitiatedShutdown)"
    )
    assert why_vm_ended({"code": "SomethingNew", "message": RAW}) == "SomethingNew"
    assert why_vm_ended({}) == "no reason given"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"code": "AccessDenied", "message": RAW}, f"AccessDenied: {RAW}"),
        ({"code": None, "message": RAW}, RAW),
        ({"code": "AccessDenied", "message": "AccessDenied: no"}, "AccessDenied: no"),
        ({"code": "AccessDenied"}, "AccessDenied"),
        ({}, None),
    ],
)
def test_operators_are_told_everything(error: dict[str, str | None], words: str | None) -> None:
    assert provider_words(error) == words

"""EC2's model as the adapter reads it: smaller, and the same for everything that is sent."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.utils import parse_timestamp

from workers.providers.aws.sdk import READ, ReadingLoader, timestamp


@cache
def model(loader: type[Loader]) -> Mapping[str, Any]:
    """Read by tests alone: it takes half a second."""
    found: Mapping[str, Any] = loader().load_service_model("ec2", "service-2")
    return found


def whole() -> Mapping[str, Any]:
    return model(Loader)


def trimmed() -> Mapping[str, Any]:
    return model(ReadingLoader)


def reached(shape: str, seen: set[str]) -> Iterator[str]:
    """Every shape inside a shape, itself included."""
    if shape in seen:
        return
    seen.add(shape)
    yield shape
    told = whole()["shapes"][shape]
    inside = [*told.get("members", {}).values(), *(told[part] for part in ("member", "key", "value") if part in told)]
    for one in inside:
        yield from reached(one["shape"], seen)


def test_nothing_that_can_be_sent_is_trimmed() -> None:
    seen: set[str] = set()
    for operation in whole()["operations"].values():
        if "input" in operation:
            list(reached(operation["input"]["shape"], seen))
    assert not seen & set(READ)


@pytest.mark.parametrize("shape", READ)
def test_what_is_read_exists_and_stays_as_it_is(shape: str) -> None:
    members = whole()["shapes"][shape]["members"]
    assert set(members) >= READ[shape]
    assert trimmed()["shapes"][shape] == whole()["shapes"][shape] | {
        "members": {name: members[name] for name in members if name in READ[shape]}
    }


def test_every_other_shape_is_whole() -> None:
    assert {name for name in whole()["shapes"] if trimmed()["shapes"][name] != whole()["shapes"][name]} == set(READ)


def test_another_services_model_is_left_alone() -> None:
    assert ReadingLoader().load_service_model("sts", "service-2") == Loader().load_service_model("sts", "service-2")


@pytest.mark.parametrize(
    "value", ["2026-11-22T04:17:21.000Z", "2026-11-22T04:17:21Z", "Sun, 22 Nov 2026 04:17:21 GMT", 1795321041]
)
def test_a_timestamp_is_read_as_botocore_reads_it(value: Any) -> None:
    assert timestamp(value) == parse_timestamp(value) == datetime(2026, 11, 22, 4, 17, 21, tzinfo=UTC)

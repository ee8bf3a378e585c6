"""The data of events."""

import json
from dataclasses import fields

from app.domain.event_types import EventType
from app.domain.events import EVENT_DATA, AttemptRefused, LeaseInterruptionNotice, LeaseQueued
from tests.domain.event_samples import AT, OFFERING, sample


def test_every_type_has_data_of_its_own() -> None:
    assert EVENT_DATA.keys() == set(EventType)


def test_the_data_of_every_type_is_json_with_every_field() -> None:
    for kind in EventType:
        data = sample(kind)
        stored = data.as_json()
        assert json.loads(json.dumps(stored)) == stored, kind
        assert len(stored) == len(fields(data)), kind


def test_times_have_a_z_and_absent_values_are_null() -> None:
    notice = LeaseInterruptionNotice(notice_at=AT, deadline_at=None, action="stop")
    assert notice.as_json() == {"notice_at": "2026-11-01T10:00:00Z", "deadline_at": None, "action": "stop"}
    assert LeaseQueued(name="train", reason=None).as_json() == {"name": "train", "reason": None}


def test_an_error_has_the_field_class() -> None:
    stored = sample(EventType.ATTEMPT_REFUSED).as_json()
    assert stored["error"].keys() == {"class", "code", "message"}
    assert AttemptRefused(n=1, instance_id=None, offering=OFFERING, error=None).as_json()["error"] is None

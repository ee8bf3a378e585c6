"""What users of volumes hold against gpulease: a file that a lease lacks while it has its VM, and no other."""

import threading
from typing import Any, cast

import pytest

from bench.three_clouds import Installation
from tests.chaos.course import Course
from tests.chaos.volume_thief import VolumeThief
from tests.chaos.volume_users import VolumeUsers
from tests.e2e.cloud import Json
from tests.e2e.people import Tenant

VM: Json = {"id": "vm-1", "state": "running", "ending_at": None}


class Things:
    """A cloud with one VM and one file, a tenant with one lease, and the installation of both."""

    def __init__(self, text: str | None = None, **changes: Any) -> None:
        self.text = text
        self._vm = {**VM, **{name: changes[name] for name in changes.keys() & VM.keys()}}
        self._lease = {"state": changes.get("lease", "active"), "placement": {"instance_id": "zone:name:vm-1"}}
        self.cloud = self

    def vm(self, _vm_id: str) -> Json:
        return self._vm

    def lease(self, _lease_id: str) -> Json:
        return self._lease

    def read_file(self, _vm: Json, _path: str) -> str | None:
        return self.text

    def write_file(self, _vm: Json, _path: str, text: str) -> bool:
        self.text = text
        return True


def users(things: Things) -> VolumeUsers:
    return VolumeUsers(cast(Installation, things), cast(Tenant, things), Course(), seed=1, may_ask=threading.Event())


def test_a_file_that_was_written_is_read_by_the_next_lease() -> None:
    made = users(Things())
    for lease_id in ("lease_1", "lease_2"):
        made._read_and_write("vol_1", lease_id, VM)
    assert made.wrong == set()
    assert made.figures == {"files written": 2, "files read": 1}


@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 1), ({"state": "shutting-down"}, 0), ({"ending_at": "now"}, 0), ({"lease": "releasing"}, 0)],
)
def test_a_file_is_missed_while_the_lease_has_its_vm(changes: Json, count: int) -> None:
    things = Things(**changes)
    made = users(things)
    made._read_and_write("vol_1", "lease_1", VM)
    things.text = None
    made._read("vol_1", "lease_1", VM)
    assert len(made.wrong) == count


def test_a_thief_whose_requests_are_accepted_is_noticed() -> None:
    class Answers:
        def __init__(self, accepted: str) -> None:
            self._accepted = accepted
            self.http = self

        def answer(self, what: str) -> Any:
            return type("Answer", (), {"is_success": what == self._accepted, "status_code": 404})

        def get(self, _path: str) -> Any:
            return self.answer("read")

        def delete(self, _path: str) -> Any:
            return self.answer("deleted")

        def ask(self, _wish: Json) -> Any:
            return self.answer("mounted")

    for accepted, taken in (("nothing", set()), ("mounted", {"vol_1 is mounted"}), ("read", {"vol_1 is read"})):
        thief = VolumeThief(cast(Tenant, Answers(accepted)), {"vol_1": "data"}, seed=1)
        thief._try_others({})
        assert thief.taken == taken

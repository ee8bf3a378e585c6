"""Volumes: their states, and where a VM may mount them."""

import pytest

from app.domain.volumes import ENDED, LIVE, TRANSITIONS, VolumeMount, VolumeState, mounts_problem, path_problem, sources


def test_every_state_has_its_transitions_and_an_ended_one_has_none() -> None:
    assert TRANSITIONS.keys() == set(VolumeState)
    assert {state for state, targets in TRANSITIONS.items() if not targets} == ENDED
    assert LIVE.isdisjoint(ENDED)


def test_a_volume_that_is_deleted_does_not_come_back() -> None:
    assert sources(VolumeState.AVAILABLE) == (VolumeState.CREATING,)
    assert sources(VolumeState.DELETED) == (VolumeState.DELETING,)


@pytest.mark.parametrize("path", ["/data", "/mnt/x", "/srv/models", "/workspace", "/a/b/c/d/e/f", "/d.1/_x-y"])
def test_a_volume_is_mounted_at_a_path_of_the_users_own(path: str) -> None:
    assert path_problem(path) is None


@pytest.mark.parametrize(
    "path",
    [
        *("", "data", "/", "//data", "/data/", "/data/../etc", "/./data", "/data\n", "/da ta", "/$HOME", "/a'b", "/é"),
        *("/etc", "/usr/local", "/home", "/root", "/var/lib", "/boot/efi", "/opt/x", "/run/x", "/proc"),
        *("/mnt", "/srv", "/a/b/c/d/e/f/g", "/" + "a" * 128),
    ],
)
def test_a_path_of_the_system_is_refused(path: str) -> None:
    assert path_problem(path) is not None


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (VolumeMount("b", "/work"), None),
        (VolumeMount("b", "/data2"), None),
        (VolumeMount("a", "/work"), "must not list a twice"),
        (VolumeMount("b", "/data"), "must have separate paths"),
        (VolumeMount("b", "/data/in"), "must have separate paths"),
    ],
)
def test_two_mounts_have_two_volumes_and_separate_paths(second: VolumeMount, problem: str | None) -> None:
    mounts = (VolumeMount("a", "/data"), second)
    for order in (mounts, mounts[::-1]):
        conflict = mounts_problem(order)
        assert conflict is None if problem is None else problem in (conflict or "")


def test_a_mount_is_read_as_it_is_written() -> None:
    mount = VolumeMount("a", "/data")
    assert VolumeMount.from_json(mount.as_json()) == mount

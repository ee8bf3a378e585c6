"""Azure's lists of permissions: wildcards, exclusions, and roles that add up."""

from typing import Any

import pytest

from workers.providers.azure.rights import is_granted

DELETE = "Microsoft.Compute/virtualMachines/delete"


def role(*actions: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"actions": list(actions), "notActions": list(without)}


@pytest.mark.parametrize(
    "pattern",
    [
        DELETE,
        DELETE.upper(),
        "*",
        "*/delete",
        "Microsoft.Compute/*",
        "Microsoft.Compute/virtualMachines/*",
        "Microsoft.*/delete",
    ],
)
def test_a_pattern_grants_what_it_matches(pattern: str) -> None:
    assert is_granted(DELETE, [role(pattern)])


@pytest.mark.parametrize(
    "pattern",
    [
        "*/read",
        "Microsoft.Network/*",
        "Microsoft.Compute/virtualMachines",
        "Microsoft.Compute/virtualMachines/delete/action",
        "",
    ],
)
def test_a_pattern_grants_nothing_else(pattern: str) -> None:
    assert not is_granted(DELETE, [role(pattern)])


def test_a_dot_is_a_dot() -> None:
    assert not is_granted("MicrosoftXCompute/virtualMachines/delete", [role(DELETE)])


def test_exclusions_count_within_their_role_alone() -> None:
    contributor = role("*", without=("Microsoft.Compute/virtualMachines/delete",))
    assert not is_granted(DELETE, [contributor])
    assert is_granted(DELETE, [contributor, role(DELETE)])


def test_without_roles_nothing_is_granted() -> None:
    assert not is_granted(DELETE, [])
    assert not is_granted(DELETE, [{"actions": None, "notActions": None}])

"""Images that leases ask for by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloudsim.testing import Control
from tests.workers.fleet import ACCOUNT, REGION, Fleet

PARAMETER = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id"


@pytest.fixture
def named(make_fleet: Callable[..., Fleet], sim: Control, tmp_path: Path) -> Fleet:
    """A worker whose account has an image that exists, and one that does not."""
    config = tmp_path / "images.toml"
    config.write_text(
        f'[[accounts]]\nprovider = "aws"\nname = "{ACCOUNT}"\nregions = ["{REGION}"]\nendpoint_url = "{sim.url}"\n'
        f'[accounts.images]\n"ubuntu-22.04" = "{PARAMETER}"\n"gone" = "ami-0123456789abcdef0"\n'
    )
    return make_fleet(config=config)


def image(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = row["image"]
    return found


def test_a_lease_starts_from_the_image_that_it_names(named: Fleet) -> None:
    lease_id = named.create(image="ubuntu-22.04")
    lease = named.drive_to(lease_id, "active")
    (attempt,) = named.attempts(lease_id)
    assert "Ubuntu 22.04" in image(lease.placement)["name"]
    assert image(attempt.offering) == image(lease.placement)
    assert attempt.params["ImageId"] == image(lease.placement)["id"]
    other = named.drive_to(named.create(), "active")
    assert "Ubuntu 24.04" in image(other.placement)["name"]


def test_an_image_that_is_gone_fails_its_lease_and_sets_nothing_aside(named: Fleet) -> None:
    asked = named.sim.calls()["DescribeImages"]
    lease_id = named.create(image="gone")
    failed = named.drive_to(lease_id, "failed", "released")
    assert (failed.state, failed.reason["code"]) == ("failed", "image_missing")
    assert not any(one.cool_off for one in named.runtime.catalogue.offerings())
    assert named.sim.calls()["DescribeImages"] == asked, "the refresh has asked a moment ago"
    assert named.runs() == 0
    named.drive_to(named.create(), "active")


def test_an_image_that_no_account_has_any_more_is_the_reason(named: Fleet) -> None:
    failed = named.drive_to(named.create(image="dropped"), "failed", "released")
    assert failed.reason["code"] == "image_missing"
    assert named.runs() == 0

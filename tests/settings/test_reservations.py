"""What the accounts file may say of reservations, and what it is told when it contradicts itself."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.settings import StartupError, load_accounts

ACCOUNT = 'provider = "aws"\nname = "main"\nregions = ["us-east-1"]\n'
BLOCK = {
    "name": '"block"',
    "kind": '"capacity_block"',
    "id": '"cr-0123456789abcdef0"',
    "region": '"us-east-1"',
    "zone": '"us-east-1a"',
    "instance_type": '"p5.48xlarge"',
}


def written(folder: Path, *reservations: dict[str, Any]) -> Path:
    sections = ["[[accounts]]", ACCOUNT]
    for reservation in reservations:
        members = [f"{name} = {value}" for name, value in reservation.items() if value is not None]
        sections += ["[[accounts.reservations]]", *members]
    path = folder / "gpulease.toml"
    path.write_text("\n".join(sections))
    return path


def test_a_reservation_is_read_with_its_defaults(tmp_path: Path) -> None:
    (block,) = load_accounts(written(tmp_path, BLOCK))["main"].reservations
    assert (block.name, block.count, block.price_per_hour, block.tenants) == ("block", None, Decimal(0), ())


@pytest.mark.parametrize(
    ("reservations", "said"),
    [
        ([BLOCK, BLOCK], "two reservations are named block: give each its own name"),
        ([BLOCK | {"region": '"us-west-2"'}], "block is in us-west-2: add that region to the account's regions"),
        ([BLOCK | {"kind": '"flex_start"'}], "use one of capacity_reservation, capacity_block"),
        ([BLOCK | {"id": None}], "block has no id: copy the reservation's id at the cloud"),
        ([BLOCK | {"tenants": '["vision"]'}], "reservations.0.tenants.0"),
        ([BLOCK | {"price_per_hour": '"-1"'}], "reservations.0.price_per_hour"),
        (
            [BLOCK | {"starts_at": "2026-12-02T00:00:00Z", "ends_at": "2026-12-01T00:00:00Z"}],
            "ends at or before its start: correct starts_at or ends_at",
        ),
    ],
)
def test_a_wrong_reservation_stops_the_program(tmp_path: Path, reservations: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(StartupError) as stopped:
        load_accounts(written(tmp_path, *reservations))
    assert said in str(stopped.value)

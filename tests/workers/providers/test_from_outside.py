"""A provider is added by a distribution of its own, with one entry point: no file of gpulease names it."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from app.settings import StartupError, accounts, load_accounts, providers
from tests.harness.databases import ROOT
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.account_checks import command

TOY = Path(__file__).parent / "outside" / "toy_cloud.py"
REQUEST: dict[str, Any] = {"instance_types": ["toy.large"], "providers": ["toy"]}


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed distribution that brings the provider."""
    folder = tmp_path / "site"
    metadata = folder / "toy_cloud-1.0.dist-info"
    metadata.mkdir(parents=True)
    shutil.copy(TOY, folder)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-cloud\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{providers.GROUP}]\ntoy = toy_cloud:PROVIDER\n")
    monkeypatch.syspath_prepend(folder)
    _forget()
    yield folder
    monkeypatch.undo()
    sys.modules.pop("toy_cloud", None)
    _forget()


def _forget() -> None:
    providers.providers.cache_clear()
    accounts._adapter.cache_clear()


@pytest.fixture
def config(distribution: Path) -> Path:
    path = distribution / "gpulease.toml"
    path.write_text(
        f'[[accounts]]\nprovider = "toy"\nname = "{ACCOUNT}"\nregions = ["{REGION}"]\nplayground = "sandbox"\n'
    )
    return path


def test_a_lease_lives_at_it(config: Path, make_fleet: Callable[..., Fleet]) -> None:
    fleet = make_fleet(config=config)
    lease_id = fleet.create(**REQUEST)
    fleet.drive_to(lease_id, "active")
    placement = fleet.lease(lease_id).placement
    assert (placement["provider"], placement["instance_type"]) == ("toy", "toy.large")
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")
    assert fleet.used() == {}


def test_it_needs_no_checks(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--config", str(config)]) == 0
    assert "  ?    adapter     checks" in capsys.readouterr().out


def test_its_settings_are_checked_like_those_of_every_other(config: Path) -> None:
    assert isinstance(load_accounts(config)[ACCOUNT], import_module("toy_cloud").ToyAccount)
    config.write_text(config.read_text().replace("playground", "sandpit"))
    with pytest.raises(StartupError, match="playground"):
        load_accounts(config)


def test_the_api_knows_its_name(distribution: Path) -> None:
    code = "from app.api.schemas.lease_bodies import ProviderName; print(*ProviderName)"
    argv, environment = [sys.executable, "-c", code], {"PYTHONPATH": str(distribution)}
    run = subprocess.run(argv, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert run.stdout.split() == ["aws", "azure", "gcp", "toy"]


def test_an_entry_point_that_is_no_provider_is_named(distribution: Path) -> None:
    names = distribution / "toy_cloud-1.0.dist-info" / "entry_points.txt"
    names.write_text(f"[{providers.GROUP}]\ntoy = toy_cloud:ToyProvider\n")
    with pytest.raises(TypeError, match="'toy'"):
        providers.providers()


def test_without_its_distribution_its_accounts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "gpulease.toml"
    path.write_text('[[accounts]]\nprovider = "toy"\nname = "main"\nregions = ["here"]\n')
    with pytest.raises(StartupError, match="account 1"):
        load_accounts(path)

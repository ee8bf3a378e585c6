"""The dead-man switch at each cloud: VMs that refuse to end, rights that are missing, places that are not seen."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings, load_accounts
from cloudsim.testing import Control, running
from tests.workers.clouds import CLOUDS, ENVIRONMENT, PLACES, REFUSALS, account_text
from tests.workers.providers.azure.accounts import GROUP
from workers.deadman.command import main
from workers.deadman.sweep import Deadman
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.registry import connect
from workers.providers.types import ListingPage

INSTALLATION = "gpl-0123456789ab"
PAST = "1"
OTHER_REGIONS = {"aws": "eu-west-1", "gcp": "europe-west4", "azure": "westeurope"}


class Switch:
    """The command, run in this process against one simulated cloud with one account."""

    def __init__(self, sim: Control, config: Path, provider: str, read: Callable[[], str]) -> None:
        self.sim = sim
        self.provider = provider
        self.config = config
        self._read = read

    def plant(self, *, deadline: str = PAST, **place: Any) -> str:
        tags = {"gpulease-installation": INSTALLATION, "gpulease-deadline": deadline}
        (vm_id,) = self.sim.plant(provider=self.provider, **{**PLACES[self.provider], "tags": tags, **place})
        return vm_id

    def run(self, *more: str) -> tuple[int, list[dict[str, Any]]]:
        """Exit code and facts."""
        self._read()
        code = main(["--installation", INSTALLATION, "--config", str(self.config), *more])
        return code, [json.loads(line) for line in self._read().splitlines()]

    def heartbeat_after_a_pass(self, heard: list[str]) -> int:
        """The exit code of a pass that tells of itself, and in `heard` whether it did."""

        class Listener(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                heard.append(self.command)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object, **_named: object) -> None:
                """Quiet."""

        with HTTPServer(("127.0.0.1", 0), Listener) as server:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
            code, _ = self.run("--heartbeat-url", f"http://127.0.0.1:{server.server_port}/")
            server.shutdown()
        return code

    def alive(self) -> set[str]:
        found = self.sim.instances(provider=self.provider, alive="true")
        return {vm["id"] for vm in found if vm["state"] in {"pending", "running"}}


def named(facts: list[dict[str, Any]], event: str) -> set[str]:
    """The provider's own numbers of the VMs that facts of this kind name."""
    return {fact["instance_id"].rpartition(":")[2] for fact in facts if fact["event"] == event}


@pytest.fixture
def sim() -> Iterator[Control]:
    with running(boot_seconds=0.0, shutdown_seconds=60.0) as control:
        yield control


@pytest.fixture
def start(
    sim: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Switch]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    # the stream of this test is closed after it, and loggers of this process would keep it
    monkeypatch.setattr("workers.deadman.command.configure_logs", lambda *_: None)

    def make(provider: str) -> Switch:
        path = tmp_path / f"{provider}.toml"
        path.write_text(account_text(provider, sim.url, tmp_path))
        return Switch(sim, path, provider, lambda: capsys.readouterr().out)

    return make


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_vm_that_refuses_to_end_protects_no_other(start: Callable[[str], Switch], provider: str) -> None:
    switch = start(provider)
    first, protected, last = (switch.plant() for _ in range(3))
    switch.sim.protect(protected, provider=provider)
    code, facts = switch.run()
    assert switch.alive() == {protected}
    assert named(facts, "ended") == {first, last}
    (refusal,) = [fact for fact in facts if fact["event"] == "not ended"]
    assert refusal["instance_id"].endswith(protected)
    assert refusal["code"] == REFUSALS[provider]
    assert refusal["error"]
    assert code == 1


@pytest.mark.parametrize("provider", CLOUDS)
def test_a_vm_in_a_region_that_left_the_file_is_ended(start: Callable[[str], Switch], provider: str) -> None:
    switch = start(provider)
    region = OTHER_REGIONS[provider]
    zone = f"{region}a" if provider == "aws" else f"{region}-a" if provider == "gcp" else f"{region}-1"
    left = switch.plant(region=region, zone=zone)
    kept = switch.plant(region=region, zone=zone, deadline=str(int(time.time()) + 3600))
    code, facts = switch.run()
    assert (code, named(facts, "ended")) == (0, {left})
    assert switch.alive() == {kept}


def test_the_two_documented_rights_are_enough_at_gcp(start: Callable[[str], Switch]) -> None:
    switch = start("gcp")
    expired = switch.plant()
    spot = switch.plant(market="spot", deadline=str(int(time.time()) + 3600))
    switch.sim.interrupt(spot, 0.0, provider="gcp")
    for operation in ("zoneOperations.list", "globalOperations.aggregatedList", "projects.get", "regions.get"):
        switch.sim.fault(operation, "error", code="forbidden", times=None, provider="gcp")
    code, facts = switch.run()
    assert (code, named(facts, "ended")) == (0, {expired})
    assert set(switch.sim.calls("gcp")) - {"token"} == {"instances.aggregatedList", "instances.delete"}


def test_a_zone_that_gave_no_answer_counts_as_failed_and_the_others_are_served(start: Callable[[str], Switch]) -> None:
    switch = start("gcp")
    hidden, seen = switch.plant(zone="us-central1-b"), switch.plant()
    switch.sim.fault("instances.aggregatedList", "error", region="us-central1-b", times=None, provider="gcp")
    code, facts = switch.run()
    assert (code, named(facts, "ended"), switch.alive()) == (1, {seen}, {hidden})
    (fact,) = [fact for fact in facts if fact["event"] == "unreachable"]
    assert fact["zone"] == "us-central1-b"


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_a_region_that_gave_no_answer_counts_as_failed_and_the_others_are_served(
    start: Callable[[str], Switch], region: str
) -> None:
    switch = start("aws")
    seen = switch.plant(region="eu-west-1", zone="eu-west-1a")
    switch.sim.fault("DescribeInstances", "error", region=region, times=None)
    code, facts = switch.run()
    assert (code, named(facts, "ended")) == (1, {seen})
    (fact,) = [fact for fact in facts if fact["event"] == "failed"]
    assert fact["region"] == region


def test_regions_that_the_cloud_does_not_name_count_as_failed(start: Callable[[str], Switch]) -> None:
    """As with rights from before all regions were looked at: the configured region is served all the same."""
    switch = start("aws")
    seen, hidden = switch.plant(), switch.plant(region="eu-west-1", zone="eu-west-1a")
    switch.sim.fault("DescribeRegions", "error", code="UnauthorizedOperation", times=None)
    code, facts = switch.run()
    assert (code, named(facts, "ended"), switch.alive()) == (1, {seen}, {hidden})
    (fact,) = [fact for fact in facts if fact["event"] == "failed"]
    assert fact["region"] == "other regions"
    assert "docs/providers/aws.md" in fact["error"]


@pytest.mark.parametrize(
    ("provider", "hidden", "skipped"),
    [("aws", "us-west-2", "us-west-2"), ("gcp", "europe-west4-a", "europe-west4")],
)
def test_a_region_that_need_not_be_seen_is_no_failure(
    start: Callable[[str], Switch], provider: str, hidden: str, skipped: str
) -> None:
    switch = start(provider)
    operation = {"aws": "DescribeInstances", "gcp": "instances.aggregatedList"}[provider]
    switch.sim.fault(operation, "error", region=hidden, times=None, provider=provider)
    assert switch.run()[0] == 1
    assert switch.run("--skip-region", skipped)[0] == 0


def test_a_vm_in_another_resource_group_is_ended(start: Callable[[str], Switch], tmp_path: Path) -> None:
    """As after `resource_group` was changed in the file."""
    switch = start("azure")
    expired = switch.plant()
    config = tmp_path / "azure.toml"
    config.write_text(config.read_text().replace(f'"{GROUP}"', '"another-group"'))
    code, facts = switch.run()
    assert (code, named(facts, "ended"), switch.alive()) == (0, {expired}, set())


def test_no_heartbeat_tells_of_a_pass_that_did_not_see_all(start: Callable[[str], Switch]) -> None:
    switch = start("gcp")
    heard: list[str] = []
    switch.sim.fault("instances.aggregatedList", "error", region="us-central1-b", times=1, provider="gcp")
    assert switch.heartbeat_after_a_pass(heard) == 1
    assert heard == []
    protected = switch.plant()
    switch.sim.protect(protected, provider="gcp")
    assert switch.heartbeat_after_a_pass(heard) == 1
    assert heard == []
    switch.sim.protect(protected, provider="gcp", protected=False)
    assert switch.heartbeat_after_a_pass(heard) == 0
    assert heard == ["POST"]


def test_a_bug_in_one_adapter_protects_no_vm_of_another_account(start: Callable[[str], Switch]) -> None:
    facts: list[dict[str, Any]] = []
    aws = start("aws")
    expired = aws.plant()
    (account,) = load_accounts(aws.config).values()
    assert isinstance(account, AwsAccount)
    deadman = Deadman(
        installation=INSTALLATION,
        accounts=[(account, Broken(account, Settings())), (account, connect(account, Settings()))],
        clock=lambda: datetime.now(UTC),  # noqa: TID251
        report=facts.append,
    )
    assert not deadman.run()
    assert named(facts, "ended") == {expired}
    assert [fact["code"] for fact in facts if fact["event"] == "failed"] == ["KeyError"]


class Broken(AwsProvider):
    """An adapter that does not understand what the cloud answers."""

    def list_everywhere(self, installation: str) -> Iterator[ListingPage]:
        raise KeyError(installation)

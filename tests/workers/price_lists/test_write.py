"""Writing the price lists: what a list is after a provider's answer, and what the command writes and prints."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from app.domain.offerings import Market
from app.settings import StartupError, load_accounts, load_settings
from app.settings.timing import timing
from cloudsim.arm.catalog import catalog as azure_facts
from cloudsim.ec2.catalog import catalog as aws_facts
from cloudsim.gce.catalog import catalog as gcp_facts
from cloudsim.testing import Control, running
from cloudsim.world import Catalog
from tests.workers.providers.gcp.accounts import key_file
from workers.price_lists.commands import main
from workers.price_lists.write import summarize, updated, write
from workers.providers.errors import Throttled
from workers.providers.price_list import parse
from workers.providers.registry import catalogue, connect, price_list_path
from workers.providers.types import ListedKey, Price, PriceList, PricePage

ACCOUNTS = """
[[accounts]]
provider = "aws"
name = "main"
regions = ["us-east-1"]
endpoint_url = "{url}"

[[accounts]]
provider = "gcp"
name = "project"
project = "sim-project"
regions = ["us-central1"]
endpoint_url = "{url}"
credentials_file = "{key_file}"

[[accounts]]
provider = "azure"
name = "subscription"
regions = ["eastus"]
endpoint_url = "{url}"
subscription_id = "00000000-0000-4000-8000-000000000001"
resource_group = "gpulease"
[accounts.subnet_ids]
eastus = "/subscriptions/00000000-0000-4000-8000-000000000001/resourceGroups/networks/providers/Microsoft.Network/virtualNetworks/eastus/subnets/gpus"
"""
FACTS = {"aws": aws_facts, "gcp": gcp_facts, "azure": azure_facts}
NOW = datetime(2026, 11, 1, tzinfo=UTC)
BUSY = Throttled("Rate exceeded", code="Throttling")


def key(name: str, region: str = "north") -> ListedKey:
    return (region, name, Market.ON_DEMAND)


def price(amount: str) -> Price:
    return Price(per_hour=Decimal(amount), as_of=NOW, source="list")


def page(name: str, **prices: str) -> PricePage:
    listed = {key(name, region): price(amount) for region, amount in prices.items()}
    return PricePage(types=frozenset({name}), prices=listed)


def test_only_a_type_that_could_not_be_asked_keeps_its_prices() -> None:
    before = {key("large"): price("4"), key("small"): price("1"), key("small", "south"): price("2")}
    update = updated(before, [page("small", north="1.5"), PricePage(types=frozenset({"large"}), error=BUSY)])
    assert update.after == {key("small"): price("1.5"), key("large"): price("4")}
    assert list(summarize(update)) == [
        "2 prices: 0 added, 1 changed, 1 gone",
        "changed: north small on_demand 1.00 -> 1.50 (+50.0%)",
        "gone: south small on_demand 2.00",
        "no answer about large, so 1 prices stay unconfirmed: Throttling: Rate exceeded",
    ]


def test_a_type_that_left_the_catalogue_leaves_the_list() -> None:
    update = updated({key("retired"): price("4")}, [page("small", north="1")])
    assert (update.gone, update.added) == ([key("retired")], [key("small")])


def test_a_long_summary_is_shortened() -> None:
    before = {key(f"type-{number:02}"): price("1") for number in range(30)}
    lines = list(summarize(updated(before, [])))
    assert (len(lines), lines[-1]) == (22, "and 10 more")


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running() as control:
        yield control


@pytest.fixture
def config(sim: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Accounts of all three simulated clouds."""
    sim.reset()
    path = tmp_path / "gpulease.toml"
    path.write_text(ACCOUNTS.format(url=sim.url, key_file=key_file(tmp_path, sim.url)), encoding="utf-8")
    for name, value in {
        "GPULEASE_CONFIG": str(path),
        **timing(call_timeout=60),
        "AWS_ACCESS_KEY_ID": "AKIASIMULATED0000001",
        "AWS_SECRET_ACCESS_KEY": "simulated",
        "AZURE_CLIENT_SECRET": "simulated",
    }.items():
        monkeypatch.setenv(name, value)
    return path


@pytest.fixture
def azure(config: Path) -> None:
    """The account of Azure alone: its price list answers fastest."""
    text = config.read_text(encoding="utf-8")
    config.write_text(text[text.rindex("[[accounts]]") :], encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "lists"
    made.mkdir()
    return made


def test_the_lists_hold_what_the_simulated_clouds_sell(config: Path, folder: Path) -> None:
    assert main(["--write", str(folder), "--allow-fewer"]) == 0
    for account in load_accounts(config).values():
        facts = FACTS[account.provider]()
        prices = read(folder, account.provider)
        listed = {(region, name) for region, name, _ in prices}
        assert listed >= sold(account.provider, facts)
        assert {region for region, _ in listed} == set(facts.regions)
        region = account.regions[0]
        here = {(name, market): one.per_hour for (place, name, market), one in prices.items() if place == region}
        reported = connect(account, load_settings()).prices(region)
        assert here == {of: one.per_hour for of, one in reported.items()}
        for (place, name, market), one in prices.items():
            if account.provider != "gcp" and market is Market.ON_DEMAND:
                assert one.per_hour == facts.offers[facts.regions[place][0], name].on_demand


def test_a_list_is_replaced_by_a_shorter_one_only_on_request(
    azure: None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "azure.csv"
    arguments = ["--write", str(folder)]
    assert main([*arguments, "--allow-fewer"]) == 0
    shorter = path.read_text(encoding="utf-8")
    longer = shorter + "zenith,Standard_NC4as_T4_v3,spot,0.2,,\n"
    path.write_text(longer, encoding="utf-8")
    assert main(arguments) == 1
    assert path.read_text(encoding="utf-8") == longer
    printed = capsys.readouterr().out
    assert "azure: gone: zenith Standard_NC4as_T4_v3 spot 0.20" in printed
    assert "--allow-fewer writes it" in printed
    assert main([*arguments, "--allow-fewer"]) == 0
    assert path.read_text(encoding="utf-8") == shorter


def test_a_provider_that_does_not_answer_keeps_its_list(
    azure: None, sim: Control, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sim.fault("RetailPrices.List", "throttle", provider="azure", times=None)
    assert main(["--write", str(folder)]) == 1
    assert list(folder.iterdir()) == []
    assert "azure: not written, because no account got an answer" in capsys.readouterr().out


def test_one_type_without_an_answer_keeps_its_listed_prices(azure: None, sim: Control, folder: Path) -> None:
    sim.fault("RetailPrices.List", "error", provider="azure", times=1)
    assert main(["--write", str(folder), "--allow-fewer"]) == 1
    first = next(iter(catalogue("azure").types))
    prices = read(folder, "azure")
    assert {one: found for one, found in prices.items() if one[1] == first} == {
        one: found for one, found in catalogue("azure").prices.items() if one[1] == first
    }
    assert {one.source for one in prices.values()} == {"Azure Retail Prices", "Azure public list prices, mid 2026"}


def test_simulated_prices_never_come_with_an_adapter(azure: None, capsys: pytest.CaptureFixture[str]) -> None:
    before = price_list_path("azure").read_bytes()
    assert main(["--write"]) == 2
    assert "account subscription has an endpoint_url" in capsys.readouterr().err
    assert price_list_path("azure").read_bytes() == before


def test_without_an_account_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPULEASE_CONFIG", raising=False)
    with pytest.raises(StartupError, match="GPULEASE_CONFIG"):
        write(folder=None, allow_fewer=False)


@pytest.mark.parametrize("arguments", [[], ["--allow-fewer", "compare", "x.csv"], ["--write", "/no/such/folder"]])
def test_wrong_arguments_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)


def read(folder: Path, provider: str) -> PriceList:
    return parse((folder / f"{provider}.csv").read_text(encoding="utf-8"))


def sold(provider: str, facts: Catalog) -> set[tuple[str, str]]:
    """Regions and types of our catalogue that the simulated cloud sells."""
    types = catalogue(provider).types
    return {
        (region, name)
        for region, zones in facts.regions.items()
        for zone, name in facts.offered
        if zone in zones and name in types
    }

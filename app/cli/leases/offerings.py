"""`gpulease offerings`: the catalogue with locations and prices."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from app.cli import values
from app.cli.errors import Json
from app.cli.money import price_comparison
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, at, price, when
from app.cli.render.texts import gpus
from app.cli.session import Session


@dataclass(frozen=True)
class OfferingFilters:
    """The filters of GET /v1/offerings."""

    gpu: Annotated[
        str | None, typer.Option(metavar="MODEL[:COUNT]", help="Model, and minimum number of GPUs per VM.")
    ] = None
    min_gpus: Annotated[int | None, typer.Option(min=1, help="Minimum GPUs per VM.")] = None
    gpu_memory: Annotated[int | None, typer.Option(metavar="GIB", help="Minimum memory per GPU.")] = None
    vendor: Annotated[str | None, typer.Option(help="NVIDIA or AMD.")] = None
    interconnect: Annotated[str | None, typer.Option(metavar="KIND", help="NVLink, NVSwitch or PCIe.")] = None
    min_vcpus: Annotated[int | None, typer.Option(min=1, help="Minimum vCPUs.")] = None
    min_memory: Annotated[int | None, typer.Option(min=1, metavar="GIB", help="Minimum main memory.")] = None
    min_local_disk: Annotated[int | None, typer.Option(min=1, metavar="GIB", help="Minimum local disk.")] = None
    market: Annotated[Literal["on_demand", "spot", "reserved"] | None, typer.Option()] = None
    provider: Annotated[str | None, typer.Option()] = None
    region: Annotated[str | None, typer.Option()] = None
    max_price: Annotated[str | None, typer.Option(metavar="USD", help="Maximum price per hour.")] = None
    sort: Annotated[Literal["price", "price_per_gpu", "price_performance"] | None, typer.Option()] = None
    cursor: Annotated[str | None, typer.Option(help="Continue from the next_cursor of a --json response.")] = None

    def params(self) -> Json:
        """As query parameters."""
        model, count = values.gpu(self.gpu) if self.gpu else (None, None)
        return {
            "gpu_model": model,
            "min_gpus": self.min_gpus or count,
            "min_gpu_memory_gib": self.gpu_memory,
            "gpu_vendor": self.vendor,
            "interconnect": self.interconnect,
            "min_vcpus": self.min_vcpus,
            "min_memory_gib": self.min_memory,
            "min_local_disk_gib": self.min_local_disk,
            "market": self.market,
            "provider": self.provider,
            "region": self.region,
            "max_price_per_hour": self.max_price,
            "sort": self.sort,
            "cursor": self.cursor,
        }


def _network(item: Json) -> str | None:
    """`3200 Gbit/s EFA`; None while the bandwidth is unknown."""
    gbps = at(item, "network.gbps")
    return None if gbps is None else " ".join(filter(None, (f"{gbps:g} Gbit/s", at(item, "network.fabric"))))


COLUMNS: Columns = (
    ("TYPE", "instance_type"),
    ("GPUS", gpus),
    ("MARKET", "market"),
    ("USD/H", price("price_per_hour")),
    ("USD/GPU", price("price_per_gpu_hour")),
    ("PROVIDER", "provider"),
    ("ACCOUNT", "account"),
    ("ZONE", price_comparison.places),
    ("VCPUS", "vcpus"),
    ("MEMORY GIB", "memory_gib"),
    ("DISK GIB", "local_disk_gib"),
    ("NETWORK", _network),
    ("TFLOPS/USD", "benchmark.tflops_per_usd"),
    ("AVAILABILITY", price_comparison.availability),
    ("PRICE IS", "price_status"),
    ("PRICE AS OF", when("price_as_of")),
)

LAYOUT = Layout(
    (
        *("TYPE", "USD/H", "GPUS", "MARKET", "ZONE", "USD/GPU", "AVAILABILITY", "PROVIDER", "ACCOUNT"),
        *("PRICE IS", "VCPUS", "MEMORY GIB", "PRICE AS OF"),
    ),
    wrap={"AVAILABILITY": 12, "ZONE": 14},
    right=frozenset({"USD/H", "USD/GPU", "VCPUS", "MEMORY GIB", "DISK GIB"}),
)

_NONE = "no matching offering"

IMAGE_COLUMNS: Columns = (
    ("NAME", "name"),
    (
        "ACCOUNTS",
        lambda item: ", ".join(f"{account['account']} ({account['provider']})" for account in item["accounts"]),
    ),
)
IMAGE_LAYOUT = Layout(wrap={"ACCOUNTS": 30})


def offerings(
    session: Session,
    filters: OfferingFilters,
    *,
    by_gpu: Annotated[
        bool,
        typer.Option("--compare", help="Compare the lowest price per GPU and hour by GPU model, market and provider."),
    ] = False,
    every_zone: Annotated[bool, typer.Option("--zones", help="A line for each zone.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number; 0: all.")] = 50,
) -> None:
    """List offerings with their location and price. Zones and regions with the same price share a line.

    --json and --output csv list every zone, as the API does.
    """
    api = session.api()
    if by_gpu and not session.as_json:
        rows = price_comparison.compare(api.page("/v1/offerings", filters.params())["items"])
        columns = price_comparison.comparison_columns(rows)
        page: Json = {"items": rows, "next_cursor": None}
        session.items(page, columns, none=_NONE, layout=price_comparison.comparison_layout(columns))
        return
    merged = not (every_zone or session.as_json or session.as_csv)
    page = api.page("/v1/offerings", filters.params(), limit=None if merged or by_gpu else limit or None)
    if merged:
        groups = price_comparison.merge_places(page["items"])
        more = bool(limit) and len(groups) > limit
        page = {"items": groups[:limit] if more else groups, "next_cursor": "more" if more else None}
    session.items(page, COLUMNS, none=_NONE, layout=LAYOUT)


def images(session: Session) -> None:
    """List the images that --image of a lease accepts, and the accounts that offer each."""
    session.items(
        session.api().get("/v1/images"), IMAGE_COLUMNS, none="no account offers a named image", layout=IMAGE_LAYOUT
    )

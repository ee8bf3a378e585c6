"""`gpulease gpus` and `gpulease regions`: what a lease request may name."""

from typing import Annotated

import typer

from app.cli.errors import Json
from app.cli.gpus import fleet
from app.cli.render.layout import Layout
from app.cli.render.output import Columns, ValueSource, at, rounded, words
from app.cli.session import Session


def _lowest(market: str) -> ValueSource:
    return lambda item: rounded(at(item, f"min_price_per_gpu_hour.{market}"))


def _memory(item: Json) -> str:
    return words(item.get("memory_gib"))


def _counts(item: Json) -> str:
    """`1, 4`: in every market that sells the model. Where markets differ: `1, 4; spot 1`."""
    sold = {market: words(counts) for market, counts in (item.get("counts_by_market") or {}).items() if counts}
    if len(set(sold.values())) <= 1:
        return next(iter(sold.values()), "")
    return "; ".join(f"{market.replace('_', ' ')} {counts}" for market, counts in sold.items())


GPUS: Columns = (
    ("MODEL", "model"),
    ("MEMORY GIB", _memory),
    ("COUNTS", _counts),
    ("ON DEMAND", _lowest("on_demand")),
    ("SPOT", _lowest("spot")),
    ("RESERVED", _lowest("reserved")),
    ("VENDOR", "vendor"),
    ("ALSO KNOWN AS", "aliases"),
)
GPUS_LAYOUT = Layout(
    ("MODEL", "MEMORY GIB", "COUNTS", "ON DEMAND", "SPOT", "ALSO KNOWN AS", "RESERVED", "VENDOR"),
    wrap={"COUNTS": 12, "ALSO KNOWN AS": 16},
    right=frozenset({"ON DEMAND", "SPOT", "RESERVED"}),
)

REGIONS: Columns = (("PROVIDER", "provider"), ("REGION", "region"), ("ACCOUNTS", "accounts"))
REGIONS_LAYOUT = Layout(wrap={"ACCOUNTS": 20})


def gpus(
    session: Session,
    *,
    leased: Annotated[
        bool, typer.Option("--leased", help="The GPUs of your leases instead: paid for, in use, idle, and each one.")
    ] = False,
) -> None:
    """List the GPU models with their other spellings, and the lowest price per GPU and hour in USD.

    With --leased, show the GPUs that you pay for: how many are in use, what idle ones cost, and the use of each.
    """
    if leased:
        fleet.leased(session)
        return
    session.items(session.api().get("/v1/gpu-models"), GPUS, none="no GPU models", layout=GPUS_LAYOUT)


def regions(session: Session) -> None:
    """List the regions that --region accepts."""
    session.items(session.api().get("/v1/regions"), REGIONS, none="no regions", layout=REGIONS_LAYOUT)

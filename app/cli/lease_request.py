"""The body of a new lease, from options and from a file."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import lookup, values
from app.cli.errors import Json

if TYPE_CHECKING:
    from app.cli.client import Api

_WHAT, _TERMS, _VM = "What to lease", "Terms", "The VM"


@dataclass(frozen=True)
class LeaseOptions:
    """Every field of a lease request as an option; what is not given is left to the API's defaults."""

    name: Annotated[str | None, typer.Option(help="A name to find the lease by.")] = None
    gpu: Annotated[
        str | None,
        typer.Option(metavar="MODEL[:COUNT]", help="GPUs per VM at least, such as A100:8.", rich_help_panel=_WHAT),
    ] = None
    gpu_memory: Annotated[
        int | None, typer.Option(metavar="GIB", help="Memory per GPU at least.", rich_help_panel=_WHAT)
    ] = None
    type: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Instance type instead of --gpu; repeatable.", rich_help_panel=_WHAT),
    ] = None
    market: Annotated[
        Literal["on_demand", "spot", "spot_first"] | None, typer.Option(help="Default: any.", rich_help_panel=_WHAT)
    ] = None
    provider: Annotated[
        list[str] | None,
        typer.Option(metavar="PROVIDER", help="aws, gcp or azure; repeatable. Default: any.", rich_help_panel=_WHAT),
    ] = None
    region: Annotated[
        list[str] | None, typer.Option(metavar="REGION", help="Repeatable. Default: any.", rich_help_panel=_WHAT)
    ] = None
    max_price: Annotated[
        str | None, typer.Option(metavar="USD", help="Highest price per hour.", rich_help_panel=_TERMS)
    ] = None
    ttl: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=values.seconds,
            help="How long the lease lives, such as 4h, 90m or 3600.",
            rich_help_panel=_TERMS,
        ),
    ] = None
    wait: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=values.seconds,
            help="How long to wait for capacity; 0 is one try of each candidate.",
            rich_help_panel=_TERMS,
        ),
    ] = None
    on_interruption: Annotated[
        Literal["end", "replace"] | None,
        typer.Option(help="When the provider takes a spot VM back.", rich_help_panel=_TERMS),
    ] = None
    ssh_key: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Public key that may log in; repeatable.", rich_help_panel=_VM),
    ] = None
    startup_script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Run at the first boot.", rich_help_panel=_VM)
    ] = None
    image: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One of `gpulease images`. Default: driver-ready.", rich_help_panel=_VM),
    ] = None
    disk: Annotated[int | None, typer.Option(metavar="GIB", help="Size of the disk.", rich_help_panel=_VM)] = None
    public_ip: Annotated[
        bool | None, typer.Option("--public-ip/--no-public-ip", help="Give it a public address.", rich_help_panel=_VM)
    ] = None
    cidr: Annotated[
        list[str] | None,
        typer.Option(metavar="CIDR", help="Network that may reach port 22; repeatable.", rich_help_panel=_VM),
    ] = None
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Repeatable.")] = None
    from_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A request as JSON (- for standard input); other options go over it."),
    ] = None
    tenant: Annotated[str | None, typer.Option(help="Act for this tenant, by id or name (operators).")] = None


def request_body(options: LeaseOptions) -> Json:
    """The body for POST /v1/leases. Raises BadParameter (exit code 2) for what cannot be a request."""
    saved = _from_file(options.from_file)
    body = {**saved, **_given(options), **_hardware(options, saved.get("gpu"))}
    if not body.get("gpu") and not body.get("instance_types"):
        msg = "say what to lease: --gpu MODEL:COUNT, --type or --from-file"
        raise typer.BadParameter(msg)
    if "ttl_seconds" not in body:
        msg = "say for how long: --ttl, such as --ttl 4h"
        raise typer.BadParameter(msg)
    return body


def for_tenant(api: "Api", body: Json, reference: str | None) -> Json:
    """The body with the tenant that an operator acts for."""
    return {**body, "tenant_id": lookup.tenant_id(api, reference)} if reference else body


def _given(options: LeaseOptions) -> Json:
    labels = values.pairs(options.label or (), what="KEY=VALUE")
    fields = {
        "name": options.name,
        "market": options.market,
        "providers": options.provider or None,
        "regions": options.region or None,
        "max_price_per_hour": options.max_price,
        "ttl_seconds": options.ttl,
        "wait_seconds": options.wait,
        "ssh_public_keys": values.ssh_keys(options.ssh_key or ()) or None,
        "startup_script": values.text_file(options.startup_script) if options.startup_script else None,
        "image": options.image,
        "disk_gib": options.disk,
        "public_ip": options.public_ip,
        "allowed_cidrs": options.cidr or None,
        "on_interruption": options.on_interruption,
        "labels": labels or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _hardware(options: LeaseOptions, saved: Json | None) -> Json:
    """`gpu` or `instance_types`: one given here takes the place of either in the file, `saved` being its `gpu`."""
    if options.type:
        if options.gpu or options.gpu_memory:
            msg = "give --gpu or --type, not both"
            raise typer.BadParameter(msg)
        return {"gpu": None, "instance_types": options.type}
    gpu = _gpu(options.gpu) or saved
    if options.gpu_memory is not None:
        if not gpu:
            msg = "--gpu-memory needs --gpu"
            raise typer.BadParameter(msg)
        gpu = {**gpu, "memory_gib": options.gpu_memory}
    return {"gpu": gpu, "instance_types": None} if gpu else {}


def _gpu(text: str | None) -> Json | None:
    if text is None:
        return None
    model, count = values.gpu(text)
    return {"model": model, "count": count}


def _from_file(path: Path | None) -> Json:
    if path is None:
        return {}
    text = sys.stdin.read() if str(path) == "-" else values.text_file(path)
    try:
        document = json.loads(text)
    except ValueError as error:
        msg = f"{path} is not JSON: {error}"
        raise typer.BadParameter(msg) from None
    if not isinstance(document, dict):
        msg = f"{path} does not hold one JSON object"
        raise typer.BadParameter(msg)
    return document

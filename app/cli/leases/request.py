"""Builds the body of a new lease from options and from a file."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import completion, lookup, values
from app.cli.errors import Json
from app.cli.gpus.options import GpuOptions

if TYPE_CHECKING:
    from app.cli.client import Api

_WHAT, _TERMS, _VM = "Lease request", "Terms", "The VM"


@dataclass(frozen=True)
class LeaseOptions(GpuOptions):
    """Every field of a lease request as an option. The API fills in defaults for missing options."""

    name: Annotated[str | None, typer.Option(help="Name of the lease.")] = None
    gpu: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL[:COUNT]",
            help="Model and exact number of GPUs, such as A100:8. Default: 1.",
            autocompletion=completion.gpu_models,
            rich_help_panel=_WHAT,
        ),
    ] = None
    min_gpus: Annotated[
        int | None,
        typer.Option(min=1, help="Minimum number of GPUs, instead of a COUNT in --gpu.", rich_help_panel=_WHAT),
    ] = None
    gpu_memory: Annotated[
        int | None, typer.Option(metavar="GIB", help="Minimum memory per GPU.", rich_help_panel=_WHAT)
    ] = None
    interconnect: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="NVLink, NVSwitch, PCIe or 'Infinity Fabric' between the GPUs.", rich_help_panel=_WHAT
        ),
    ] = None
    vendor: Annotated[str | None, typer.Option(metavar="VENDOR", help="NVIDIA or AMD GPUs.", rich_help_panel=_WHAT)] = (
        None
    )
    min_vcpus: Annotated[int | None, typer.Option(min=1, help="Minimum vCPUs of the VM.", rich_help_panel=_WHAT)] = None
    min_memory: Annotated[
        int | None, typer.Option(min=1, metavar="GIB", help="Minimum main memory of the VM.", rich_help_panel=_WHAT)
    ] = None
    min_local_disk: Annotated[
        int | None, typer.Option(min=1, metavar="GIB", help="Minimum local disk of the VM.", rich_help_panel=_WHAT)
    ] = None
    type: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Instance type instead of --gpu; repeatable.", rich_help_panel=_WHAT),
    ] = None
    market: Annotated[
        Literal["on_demand", "spot", "spot_first", "reserved", "reserved_first", "any"] | None,
        typer.Option(help="Default: on_demand.", rich_help_panel=_WHAT),
    ] = None
    provider: Annotated[
        list[str] | None,
        typer.Option(metavar="PROVIDER", help="aws, gcp or azure; repeatable. Default: any.", rich_help_panel=_WHAT),
    ] = None
    region: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REGION",
            help="Repeatable. Default: any.",
            rich_help_panel=_WHAT,
            autocompletion=completion.regions,
        ),
    ] = None
    max_price: Annotated[
        str | None, typer.Option(metavar="USD", help="Maximum price per hour.", rich_help_panel=_TERMS)
    ] = None
    max_cost: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Spend cap: the lease ends before it costs more.", rich_help_panel=_TERMS),
    ] = None
    ttl: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=values.seconds,
            help="Duration of the lease, such as 4h or 90m.",
            rich_help_panel=_TERMS,
        ),
    ] = None
    wait: Annotated[
        int | None,
        typer.Option(
            metavar="DURATION",
            parser=values.seconds,
            help="Maximum wait for capacity; 0 tries each candidate once.",
            rich_help_panel=_TERMS,
        ),
    ] = None
    warn_before: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION,...",
            help="Send an event this long before the end, such as 30m,5m; none: no event.",
            rich_help_panel=_TERMS,
        ),
    ] = None
    on_interruption: Annotated[
        Literal["end", "replace"] | None,
        typer.Option(help="What to do when the provider interrupts a spot VM.", rich_help_panel=_TERMS),
    ] = None
    ssh_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Key for the login: a stored key's name, or a file with a public key; repeatable. Default: your default keys.",
            rich_help_panel=_VM,
        ),
    ] = None
    no_ssh_key: Annotated[
        bool, typer.Option("--no-ssh-key", help="Nobody can log in to the VM.", rich_help_panel=_VM)
    ] = False
    startup_script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Script to run as root at the first boot. It begins with `#!` and an interpreter, such as #!/bin/bash.",
            rich_help_panel=_VM,
        ),
    ] = None
    image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="One of `gpulease images`. Default: an image with GPU drivers.", rich_help_panel=_VM
        ),
    ] = None
    disk: Annotated[int | None, typer.Option(metavar="GIB", help="Size of the disk.", rich_help_panel=_VM)] = None
    public_ip: Annotated[
        bool | None, typer.Option("--public-ip/--no-public-ip", help="Assign a public address.", rich_help_panel=_VM)
    ] = None
    cidr: Annotated[
        list[str] | None,
        typer.Option(metavar="CIDR", help="Network that may connect to the SSH port; repeatable.", rich_help_panel=_VM),
    ] = None
    volume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PATH",
            help="Volume that the VM mounts at PATH, such as data:/data; repeatable.",
            rich_help_panel=_VM,
        ),
    ] = None
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Repeatable.")] = None
    from_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Lease request as JSON (- for standard input); options override it."),
    ] = None
    tenant: Annotated[str | None, typer.Option(help="Tenant to act for, by id or name (operators).")] = None


def request_body(options: LeaseOptions, *, quote: str | None = None) -> Json:
    """The body for POST /v1/leases. Raises BadParameter (exit code 2) for an invalid request.

    A quote gives every field that is not set.
    """
    saved = _from_file(options.from_file)
    body = {**saved, **_request_fields(options), **_hardware(options, saved.get("gpu"))}
    if quote is not None:
        return {**body, "quote_id": quote}
    if not body.get("gpu") and not body.get("instance_types"):
        msg = "no hardware given: use --gpu MODEL:COUNT, --type or --from-file"
        raise typer.BadParameter(msg)
    if "ttl_seconds" not in body:
        msg = "no duration given: use --ttl, such as --ttl 4h"
        raise typer.BadParameter(msg)
    return body


def for_tenant(api: "Api", body: Json, reference: str | None) -> Json:
    """The body with the tenant that an operator acts for."""
    return {**body, "tenant_id": lookup.tenant_id(api, reference)} if reference else body


def _request_fields(options: LeaseOptions) -> Json:
    labels = values.pairs(options.label or (), what="KEY=VALUE")
    fields = {
        "name": options.name,
        "min_vcpus": options.min_vcpus,
        "min_memory_gib": options.min_memory,
        "min_local_disk_gib": options.min_local_disk,
        "market": options.market,
        "providers": options.provider or None,
        "regions": options.region or None,
        "max_price_per_hour": options.max_price,
        "max_cost": options.max_cost,
        "ttl_seconds": options.ttl,
        "expiry_warnings_seconds": None if options.warn_before is None else values.warning_seconds(options.warn_before),
        "wait_seconds": options.wait,
        **_ssh_keys(options),
        "startup_script": values.text_file(options.startup_script) if options.startup_script else None,
        "image": options.image,
        "disk_gib": options.disk,
        "public_ip": options.public_ip,
        "allowed_cidrs": options.cidr or None,
        "on_interruption": options.on_interruption,
        **options.gpu_fields(),
        "volumes": [values.volume(text) for text in options.volume or ()] or None,
        "labels": labels or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _ssh_keys(options: LeaseOptions) -> Json:
    if options.no_ssh_key:
        if options.ssh_key:
            raise typer.BadParameter("use --ssh-key or --no-ssh-key, not both")
        return {"ssh_public_keys": [], "ssh_keys": []}
    keys, names = values.ssh_key_references(options.ssh_key or ())
    return {"ssh_public_keys": keys or None, "ssh_keys": names or None}


def _hardware(options: LeaseOptions, saved: Json | None) -> Json:
    """Sets `gpu` or `instance_types`. An option replaces either field of the file; `saved` is the file's `gpu`."""
    if options.type:
        if options.gpu or _gpu_details(options):
            msg = "use --gpu or --type, not both"
            raise typer.BadParameter(msg)
        return {"gpu": None, "instance_types": options.type}
    gpu = _gpu(options.gpu) or saved
    if options.min_gpus is not None and gpu:
        if options.gpu and "count" in gpu:
            msg = "use --min-gpus or a COUNT in --gpu, not both"
            raise typer.BadParameter(msg)
        gpu = {name: value for name, value in gpu.items() if name != "count"}
    details = _gpu_details(options)
    if details:
        if not gpu:
            msg = f"{_DETAIL_OPTIONS[next(iter(details))]} requires --gpu"
            raise typer.BadParameter(msg)
        gpu = {**gpu, **details}
    return {"gpu": gpu, "instance_types": None} if gpu else {}


_DETAIL_OPTIONS = {
    "min_count": "--min-gpus",
    "memory_gib": "--gpu-memory",
    "interconnect": "--interconnect",
    "vendor": "--vendor",
}


def _gpu_details(options: LeaseOptions) -> Json:
    fields = {
        "min_count": options.min_gpus,
        "memory_gib": options.gpu_memory,
        "interconnect": options.interconnect,
        "vendor": options.vendor,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _gpu(text: str | None) -> Json | None:
    if text is None:
        return None
    model, count = values.gpu(text)
    return {"model": model} if count is None else {"model": model, "count": count}


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
        msg = f"{path} does not contain a JSON object"
        raise typer.BadParameter(msg)
    return document

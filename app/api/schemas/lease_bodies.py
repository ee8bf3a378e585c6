"""Request bodies for leases."""

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from app.api.schemas import patterns
from app.api.schemas.base import ActingTenant, Body, DecimalText, Name, Text, Timestamp
from app.api.schemas.field_rules import exactly_one, never_null, unless
from app.api.schemas.gpu_requests import (
    GpuRequest,
    WantedBenchmark,
    WantedIdle,
    WantedOnGpuFailure,
    WantedProof,
)
from app.api.schemas.lease_fields import ExpiryWarnings, Labels, QuoteId
from app.api.schemas.volumes import MountedVolumes
from app.domain.boot_sizes import MOST_ALONE, MOST_IN_GROUP
from app.domain.lease_actions import LaterExpiry
from app.domain.lease_requests import (
    BenchmarkMode,
    LeaseRequest,
    OnGpuFailure,
    OnInterruption,
    ProofMode,
)
from app.domain.offerings import MarketPreference
from app.domain.quotes import Quote
from app.domain.ssh_keys import LARGEST_SSH_KEYS, MOST_SSH_KEYS
from app.services.errors import FieldError, InvalidRequest
from app.services.leases.requests import LARGEST_STARTUP_SCRIPT, CreateLease, checked_script, network
from app.services.tenants.ssh_key_format import check_ssh_keys, ssh_public_key
from app.settings.providers import providers

_YEAR = 31_536_000
_MOST_PROVIDERS = len(providers())
_NOT_REQUESTED = {"tenant_id", "max_cost", "startup_script", "ssh_keys", "quote_id", "expiry_warnings_seconds"}
"""Fields of a body that are no part of the lease request."""


if TYPE_CHECKING:

    class ProviderName(StrEnum):
        """A cloud provider. The list may grow."""

else:
    ProviderName = StrEnum("ProviderName", {name.upper(): name for name in providers()}, module=__name__)
    ProviderName.__doc__ = "A cloud provider. The list may grow."


def _not_null(value: object) -> object:
    if value is None:
        raise ValueError("must not be null; leave it out to keep it")
    return value


TypeName = Annotated[str, Field(pattern=patterns.INSTANCE_TYPE.regex, examples=["p4d.24xlarge"])]
RegionName = Annotated[str, Field(pattern=patterns.REGION.regex, examples=["us-east-1"])]
ImageName = Annotated[str, Field(pattern=patterns.IMAGE.regex, examples=["pytorch"])]
Ttl = Annotated[int, Field(ge=60, le=_YEAR, description="Seconds from now; at most the tenant's `max_ttl_seconds`.")]
MaxCost = Annotated[DecimalText, Field(gt=0, examples=["12.50"])]
Cidr = Annotated[str, Field(max_length=50, examples=["203.0.113.0/24"]), AfterValidator(network)]


class NewLease(Body):
    """A lease request. Set either `gpu` or `instance_types`. An absent or null field means any value.

    With `quote_id`, the quote gives every field that this body leaves out or sets to null.
    """

    model_config = ConfigDict(
        json_schema_extra=unless("quote_id", exactly_one("gpu", "instance_types"), required="ttl_seconds")
    )

    name: Annotated[Name | None, Field(description="If absent, the service generates a name.")] = None
    gpu: GpuRequest | None = None
    instance_types: Annotated[list[TypeName] | None, Field(min_length=1, max_length=20)] = None
    min_vcpus: Annotated[int | None, Field(ge=1, le=1024, description="Minimum vCPUs of the VM.")] = None
    min_memory_gib: Annotated[int | None, Field(ge=1, le=65_536, description="Minimum main memory of the VM.")] = None
    min_local_disk_gib: Annotated[
        int | None,
        Field(ge=1, le=262_144, description="Minimum local disk that comes with the VM and is lost with it."),
    ] = None
    market: Annotated[
        MarketPreference,
        Field(
            strict=False,
            description=(
                "`spot_first` and `reserved_first`: try offerings of that market first, then on-demand offerings. "
                "`any`: any market by price, except reservations that wait in a provider's queue."
            ),
        ),
    ] = MarketPreference.ON_DEMAND
    providers: Annotated[
        list[Annotated[ProviderName, Field(strict=False)]] | None, Field(min_length=1, max_length=_MOST_PROVIDERS)
    ] = None
    regions: Annotated[list[RegionName] | None, Field(min_length=1, max_length=50)] = None
    max_price_per_hour: Annotated[
        Annotated[DecimalText, Field(gt=0)] | None,
        Field(description="Maximum `price_per_hour` in USD, with all parts."),
    ] = None
    max_cost: Annotated[
        MaxCost | None,
        Field(
            description=(
                "Spend cap in USD: the lease ends before it costs more. An offering whose first minute costs more is "
                "excluded. Null: no cap."
            )
        ),
    ] = None
    ttl_seconds: Annotated[Ttl | None, Field(description="Required without `quote_id`.")] = None
    wait_seconds: Annotated[
        int, Field(ge=0, le=86_400, description="Maximum time to wait for capacity. 0: try each candidate once.")
    ] = 0
    ssh_public_keys: Annotated[
        Annotated[
            list[Annotated[str, Field(max_length=LARGEST_SSH_KEYS), AfterValidator(ssh_public_key)]],
            Field(max_length=MOST_SSH_KEYS),
            AfterValidator(check_ssh_keys),
        ]
        | None,
        Field(
            description=(
                "OpenSSH public keys, one per line, without options. RSA keys must have at least 2048 "
                "bits. All keys together have at most 8 KiB, and each comment at most 256 characters."
            ),
        ),
    ] = None
    ssh_keys: Annotated[
        Annotated[list[Name], Field(max_length=MOST_SSH_KEYS)] | None,
        Field(
            description=(
                "Names or ids of stored SSH keys, from `GET /v1/ssh-keys`. If this field and `ssh_public_keys` are both "
                "absent or null, the lease gets the default keys of the calling API key."
            ),
            examples=[["laptop"]],
        ),
    ] = None
    startup_script: Annotated[
        Annotated[
            Text,
            Field(max_length=LARGEST_STARTUP_SCRIPT, json_schema_extra={"pattern": r"^#![ \t]*/"}),
            AfterValidator(checked_script),
        ]
        | None,
        Field(
            description=(
                "A script that root runs at the VM's first boot; at most 12 KiB. Together with the SSH keys it has at most "
                f"{MOST_ALONE} bytes once compressed, in a group {MOST_IN_GROUP}. It begins with `#!` and the absolute "
                "path of an interpreter, at each cloud. Line ends `\\r\\n` become `\\n`. The API never returns it "
                "to viewers. It is deleted when the lease ends."
            ),
            examples=["#!/bin/bash\napt-get install --yes nvtop\n"],
        ),
    ] = None
    image: Annotated[
        ImageName | None,
        Field(
            description=(
                "A name from `GET /v1/images`. Null: the newest driver-ready image, or the account's default image."
            )
        ),
    ] = None
    disk_gib: Annotated[int, Field(ge=30, le=16_384)] = 100
    public_ip: bool = True
    allowed_cidrs: Annotated[
        list[Cidr] | None,
        Field(
            min_length=1,
            max_length=50,
            description=(
                "Networks that may connect to the SSH port. Null: only the provider account's own firewall applies."
            ),
        ),
    ] = None
    on_interruption: Annotated[
        OnInterruption, Field(strict=False, description="What to do when the provider interrupts a spot VM.")
    ] = OnInterruption.END
    proof: WantedProof = ProofMode.AUTO
    on_gpu_failure: WantedOnGpuFailure = OnGpuFailure.NOTIFY
    idle: WantedIdle = None
    benchmark: WantedBenchmark = BenchmarkMode.OFF
    volumes: MountedVolumes = None
    labels: Labels = Field(default_factory=dict)
    expiry_warnings_seconds: ExpiryWarnings = None
    quote_id: Annotated[
        QuoteId | None,
        Field(
            description=(
                "Only for creating a lease: a quote of `POST /v1/quotes`. The VM starts nowhere at a higher rate. Other "
                "fields must equal those of the quote, except the name, the labels, the SSH keys, the start-up script, "
                "the warnings and `max_cost`."
            )
        ),
    ] = None
    tenant_id: ActingTenant = None


class LeasePatch(Body):
    """Absent fields stay unchanged. `labels` replaces all labels, `expiry_warnings_seconds` all warnings.

    A null `max_cost` removes the spend cap.
    """

    model_config = ConfigDict(json_schema_extra=never_null("name", "labels"))

    name: Annotated[Name | None, AfterValidator(_not_null)] = None
    labels: Annotated[Labels | None, AfterValidator(_not_null)] = None
    max_cost: Annotated[
        MaxCost | None,
        Field(description="The new spend cap in USD, at least what the lease has cost. Null: no cap."),
    ] = None
    expiry_warnings_seconds: ExpiryWarnings = None


class LeaseExtension(Body):
    """The later expiry of a lease. Set either `extend_by_seconds` or `expires_at`."""

    model_config = ConfigDict(json_schema_extra=exactly_one("extend_by_seconds", "expires_at"))

    extend_by_seconds: Annotated[
        int | None, Field(ge=60, le=_YEAR, description="Seconds to add to the lease's present `expires_at`.")
    ] = None
    expires_at: Annotated[
        Timestamp | None, Field(description="The new expiry: a time with its zone, later than the present expiry.")
    ] = None


def later_expiry(body: LeaseExtension) -> LaterExpiry:
    """Converts the body to the requested extension. Raises InvalidRequest unless exactly one field is set."""
    if (body.extend_by_seconds is None) == (body.expires_at is None):
        raise _either("extend_by_seconds", "expires_at")
    by = body.extend_by_seconds
    return LaterExpiry(by=None if by is None else timedelta(seconds=by), to=body.expires_at)


def new_lease(body: NewLease, quote: Quote | None = None) -> CreateLease:
    """Converts the body to the service's request. `quote`: that of `quote_id`. Raises InvalidRequest for contradictory fields."""
    if quote is None:
        _check_complete(body)
    content = body.model_dump(mode="json", exclude=_NOT_REQUESTED)
    if body.gpu is not None and body.gpu.count is not None and body.gpu.min_count is not None:
        exact = FieldError("#/body/gpu/count", "is an exact number and excludes min_count")
        least = FieldError("#/body/gpu/min_count", "is a minimum and excludes count")
        raise InvalidRequest(errors=[exact, least])
    by_default = body.ssh_keys is None and body.ssh_public_keys is None
    ssh_keys = None if by_default else tuple(body.ssh_keys or ())
    max_cost, expiry_warnings = body.max_cost, warnings(body.expiry_warnings_seconds)
    if quote is None:
        request = LeaseRequest.from_json(content)
    else:
        overrides = {
            name: content[name] for name in body.model_fields_set & content.keys() if content[name] is not None
        }
        request = quote.request_with(overrides if by_default else {"ssh_public_keys": [], **overrides})
        ssh_keys = quote.ssh_keys if by_default else ssh_keys
        max_cost = quote.max_cost if max_cost is None else max_cost
        expiry_warnings = quote.expiry_warnings if expiry_warnings is None else expiry_warnings
    return CreateLease(
        tenant_id=body.tenant_id,
        request=request,
        max_cost=max_cost,
        ssh_keys=ssh_keys,
        startup_script=body.startup_script,
        quote=quote,
        expiry_warnings=expiry_warnings,
    )


def lease_changes(body: LeasePatch) -> dict[str, Any]:
    """The columns of a lease to change, and their new values."""
    changes = body.model_dump(exclude_unset=True)
    if "expiry_warnings_seconds" in changes:
        seconds = warnings(changes.pop("expiry_warnings_seconds"))
        changes["expiry_warnings"] = None if seconds is None else list(seconds)
    return changes


def warnings(seconds: list[int] | None) -> tuple[int, ...] | None:
    """The earliest warning first, each once."""
    return None if seconds is None else tuple(sorted(set(seconds), reverse=True))


def _check_complete(body: NewLease) -> None:
    """A body without a quote names all that a lease needs."""
    if body.quote_id is not None:
        raise InvalidRequest(errors=[FieldError("#/body/quote_id", "may be set only to create a lease")])
    if body.ttl_seconds is None:
        raise InvalidRequest(errors=[FieldError("#/body/ttl_seconds", "is required without quote_id")])
    if (body.gpu is None) == (body.instance_types is None):
        raise _either("gpu", "instance_types")


def _either(*fields: str) -> InvalidRequest:
    """The refusal where exactly one of two fields must be set."""
    detail = f"is not valid: set either {' or '.join(fields)}"
    return InvalidRequest(errors=[FieldError(f"#/body/{field}", detail) for field in fields])

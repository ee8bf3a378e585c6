"""Request bodies for leases."""

from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypeAliasType

from app.api.schemas.base import Body, DecimalText, Name, Text, Timestamp
from app.api.schemas.field_rules import exactly_one, never_null
from app.domain.lease_actions import LaterExpiry
from app.domain.lease_requests import LeaseRequest, OnInterruption
from app.domain.offerings import GpuVendor, Interconnect, MarketWish
from app.services.errors import FieldError, InvalidRequest
from app.services.lease_requests import (
    LARGEST_SSH_KEYS,
    LARGEST_STARTUP_SCRIPT,
    CreateLease,
    check_ssh_keys,
    checked_script,
    network,
    ssh_public_key,
)
from app.settings.providers import providers

_YEAR = 31_536_000
_MOST_PROVIDERS = len(providers())


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


GpuModel = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,39}$", examples=["A100"])]
TypeName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", examples=["p4d.24xlarge"])]
RegionName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$", examples=["us-east-1"])]
ImageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,39}$", examples=["pytorch"])]
Ttl = Annotated[int, Field(ge=60, le=_YEAR, description="Seconds from now; at most the tenant's `max_ttl_seconds`.")]
Cidr = Annotated[str, Field(max_length=50, examples=["203.0.113.0/24"]), AfterValidator(network)]
Labels = TypeAliasType(
    "Labels",
    Annotated[
        dict[
            Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,63}$")],
            Annotated[str, Field(pattern=r"^[\x20-\x7e]{0,63}$")],
        ],
        Field(
            max_length=20,
            description=(
                "At most 20 labels. Keys use a-z, 0-9, _ and -; values use printable ASCII. Each key and "
                "value has at most 63 characters."
            ),
        ),
    ],
)


class GpuWish(Body):
    """The GPUs of one VM. `count` and `memory_gib` (of each GPU) are minimums. Null means any."""

    model: GpuModel
    count: Annotated[int, Field(ge=1, le=64)] = 1
    memory_gib: Annotated[int | None, Field(ge=1, le=1024)] = None
    interconnect: Annotated[
        Interconnect | None,
        Field(
            strict=False, description="How the GPUs of the VM are connected. NVSwitch also serves a request for NVLink."
        ),
    ] = None
    vendor: Annotated[GpuVendor | None, Field(strict=False)] = None


class NewLease(Body):
    """A lease request. Set either `gpu` or `instance_types`. An absent or null field means any value."""

    model_config = ConfigDict(json_schema_extra=exactly_one("gpu", "instance_types"))

    name: Annotated[Name | None, Field(description="If absent, the service generates a name.")] = None
    gpu: GpuWish | None = None
    instance_types: Annotated[list[TypeName] | None, Field(min_length=1, max_length=20)] = None
    min_vcpus: Annotated[int | None, Field(ge=1, le=1024, description="Minimum vCPUs of the VM.")] = None
    min_memory_gib: Annotated[int | None, Field(ge=1, le=65_536, description="Minimum main memory of the VM.")] = None
    min_local_disk_gib: Annotated[
        int | None,
        Field(ge=1, le=262_144, description="Minimum local disk that comes with the VM and is lost with it."),
    ] = None
    market: Annotated[
        MarketWish | None,
        Field(
            strict=False,
            description=(
                "`spot_first` and `reserved_first`: try offerings of that market first, then on-demand offerings. "
                "Null: any market, except reservations that wait in a provider's queue."
            ),
        ),
    ] = None
    providers: Annotated[
        list[Annotated[ProviderName, Field(strict=False)]] | None, Field(min_length=1, max_length=_MOST_PROVIDERS)
    ] = None
    regions: Annotated[list[RegionName] | None, Field(min_length=1, max_length=50)] = None
    max_price_per_hour: Annotated[
        Annotated[DecimalText, Field(gt=0)] | None, Field(description="Maximum price of the whole VM in USD.")
    ] = None
    ttl_seconds: Ttl
    wait_seconds: Annotated[
        int, Field(ge=0, le=86_400, description="Maximum time to wait for capacity. 0: try each candidate once.")
    ] = 0
    ssh_public_keys: Annotated[
        list[Annotated[str, Field(max_length=LARGEST_SSH_KEYS), AfterValidator(ssh_public_key)]],
        Field(
            max_length=20,
            description=(
                "OpenSSH public keys, one per line, without options. RSA keys must have at least 2048 "
                "bits. All keys together have at most 8 KiB, and each comment at most 256 characters."
            ),
        ),
        AfterValidator(check_ssh_keys),
    ] = Field(default_factory=list)
    startup_script: Annotated[
        Annotated[Text, Field(max_length=LARGEST_STARTUP_SCRIPT), AfterValidator(checked_script)] | None,
        Field(
            description=(
                "A script that the VM runs at its first boot; at most 12 KiB. The API never returns it "
                "to viewers. It is deleted when the lease ends."
            )
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
                "Networks that may connect to port 22. Null: only the provider account's own firewall applies."
            ),
        ),
    ] = None
    on_interruption: Annotated[
        OnInterruption, Field(strict=False, description="What to do when the provider interrupts a spot VM.")
    ] = OnInterruption.END
    labels: Labels = Field(default_factory=dict)
    tenant_id: Annotated[
        str | None,
        Field(max_length=40, description="The tenant to act for. Required for operators; other keys must not set it."),
    ] = None


class LeasePatch(Body):
    """Absent fields stay unchanged. `labels` replaces all labels."""

    model_config = ConfigDict(json_schema_extra=never_null("name", "labels"))

    name: Annotated[Name | None, AfterValidator(_not_null)] = None
    labels: Annotated[Labels | None, AfterValidator(_not_null)] = None


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
        detail = "set either extend_by_seconds or expires_at"
        raise InvalidRequest(errors=[FieldError("/extend_by_seconds", detail), FieldError("/expires_at", detail)])
    by = body.extend_by_seconds
    return LaterExpiry(by=None if by is None else timedelta(seconds=by), to=body.expires_at)


def new_lease(body: NewLease) -> CreateLease:
    """Converts the body to the service's request. Raises InvalidRequest for contradictory fields."""
    if (body.gpu is None) == (body.instance_types is None):
        detail = "give gpu or instance_types, and not both"
        raise InvalidRequest(errors=[FieldError("/gpu", detail), FieldError("/instance_types", detail)])
    request = LeaseRequest.from_json(body.model_dump(mode="json", exclude={"tenant_id", "startup_script"}))
    return CreateLease(tenant_id=body.tenant_id, request=request, startup_script=body.startup_script)

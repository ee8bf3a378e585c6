"""Request bodies for leases."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field
from typing_extensions import TypeAliasType

from app.api.schemas.base import Body, DecimalText, Name, Text
from app.domain.lease_requests import GpuRequest, LeaseRequest, OnInterruption
from app.domain.offerings import MarketWish
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


class NewLease(Body):
    """A lease request. Set either `gpu` or `instance_types`. An absent or null field means any value."""

    name: Annotated[Name | None, Field(description="If absent, the service generates a name.")] = None
    gpu: GpuWish | None = None
    instance_types: Annotated[list[TypeName] | None, Field(min_length=1, max_length=20)] = None
    market: Annotated[
        MarketWish | None,
        Field(strict=False, description="`spot_first`: try spot offerings first, then on-demand offerings."),
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

    name: Annotated[Name | None, AfterValidator(_not_null)] = None
    labels: Annotated[Labels | None, AfterValidator(_not_null)] = None


class LeaseExtension(Body):
    """The minimum remaining time of the lease, in seconds from now. The call never shortens the lease."""

    ttl_seconds: Annotated[int, Field(ge=60, le=_YEAR)]


def new_lease(body: NewLease) -> CreateLease:
    """Converts the body to the service's request. Raises InvalidRequest for contradictory fields."""
    if (body.gpu is None) == (body.instance_types is None):
        detail = "give gpu or instance_types, and not both"
        raise InvalidRequest(errors=[FieldError("/gpu", detail), FieldError("/instance_types", detail)])
    request = LeaseRequest(
        name=body.name,
        labels=body.labels,
        gpu=None if body.gpu is None else GpuRequest(**body.gpu.model_dump()),
        instance_types=_tuple(body.instance_types),
        market=body.market,
        providers=_tuple(body.providers),
        regions=_tuple(body.regions),
        max_price_per_hour=body.max_price_per_hour,
        ttl_seconds=body.ttl_seconds,
        wait_seconds=body.wait_seconds,
        ssh_public_keys=tuple(body.ssh_public_keys),
        image=body.image,
        disk_gib=body.disk_gib,
        public_ip=body.public_ip,
        allowed_cidrs=_tuple(body.allowed_cidrs),
        on_interruption=body.on_interruption,
    )
    return CreateLease(tenant_id=body.tenant_id, request=request, startup_script=body.startup_script)


def _tuple(values: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(map(str, values))

"""The parts of a lease request that are about GPUs."""

from typing import Annotated

from pydantic import ConfigDict, Field

from app.api.schemas import patterns
from app.api.schemas.base import Body
from app.api.schemas.field_rules import at_most_one
from app.domain.lease_requests import SHORTEST_IDLE_SECONDS, BenchmarkMode, IdleAction, OnGpuFailure, ProofMode
from app.domain.offerings import GpuVendor, Interconnect

_YEAR = 31_536_000

GpuModel = Annotated[str, Field(pattern=patterns.GPU_MODEL.regex, examples=["A100"])]


class GpuRequest(Body):
    """The GPUs of one VM. Set `count` or `min_count`, or neither for one GPU. Null means any."""

    model_config = ConfigDict(json_schema_extra=at_most_one("count", "min_count"))

    model: Annotated[
        GpuModel,
        Field(
            description=(
                "A model of `GET /v1/gpu-models` or another spelling of it, such as `A100-80GB`. The response has the "
                "catalogue's name, and `memory_gib` if the spelling names a size."
            )
        ),
    ]
    count: Annotated[int | None, Field(ge=1, le=64, description="Exact number of GPUs. Default: 1.")] = None
    min_count: Annotated[int | None, Field(ge=1, le=64, description="Minimum number of GPUs, instead of `count`.")] = (
        None
    )
    memory_gib: Annotated[int | None, Field(ge=1, le=1024, description="Minimum memory of each GPU.")] = None
    interconnect: Annotated[
        Interconnect | None,
        Field(
            strict=False, description="How the GPUs of the VM are connected. NVSwitch also serves a request for NVLink."
        ),
    ] = None
    vendor: Annotated[GpuVendor | None, Field(strict=False)] = None


class IdleRule(Body):
    """A lease is idle after `after_seconds` of samples in a row in which each GPU is used 5 % or less."""

    after_seconds: Annotated[int, Field(ge=SHORTEST_IDLE_SECONDS, le=_YEAR)] = 3600
    action: Annotated[
        IdleAction, Field(strict=False, description="`notify`: only events report it. `end`: the lease ends.")
    ] = IdleAction.NOTIFY


WantedProof = Annotated[
    ProofMode,
    Field(
        strict=False,
        description=(
            "Whether the VM must prove its GPUs before the lease becomes active. `auto`: a failed proof replaces the "
            "VM. `required`: a missing proof does too. `off`: no proof is needed."
        ),
    ),
]
WantedOnGpuFailure = Annotated[
    OnGpuFailure,
    Field(
        strict=False,
        description=(
            "What to do when a GPU of the active lease fails. `notify`: an event and `health` report it. `reboot`: "
            "reboot the VM, once. `replace`: end the VM and look for another. `end`: end the lease."
        ),
    ),
]
WantedIdle = Annotated[
    IdleRule | None, Field(description="When idle GPUs count, and what follows. Null: idleness is only shown.")
]
WantedBenchmark = Annotated[
    BenchmarkMode,
    Field(
        strict=False,
        description="`quick`: the VM measures its GPUs after its boot, in less than a minute of billed time.",
    ),
]

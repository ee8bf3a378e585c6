"""What a lease shows of its GPUs: their proof, health, use and idleness."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import Moment, View
from app.api.schemas.hardware import GROWS
from app.domain.gpus.findings import HealthStatus, ProofChannel, ProofStatus, Severity


class GpuFinding(View):
    """Something wrong with a GPU, or with all GPUs of the VM."""

    code: Annotated[str, Field(description=f"What it is, such as `gpu_missing` or `xid_79`. {GROWS}")]
    severity: Annotated[
        Severity,
        Field(
            description=(
                "`fatal`: the VM must be replaced. `reboot`: a reboot may help. `degraded`: the GPU works and wears out. "
                f"`shown`: nothing follows. {GROWS}"
            )
        ),
    ]
    gpu: Annotated[str | None, Field(description="The GPU's UUID. Null: all GPUs, or unknown.")]
    message: str


class ProvenGpu(View):
    """A GPU as the VM's driver names it. Unknown values are null."""

    uuid: Annotated[str | None, Field(description="The GPU's UUID.")]
    model: Annotated[str | None, Field(description="The driver's name of the model.")]
    memory_mib: Annotated[int | None, Field(description="Memory of the GPU in MiB.")]


class GpuProof(View):
    """Evidence about the VM's GPUs, taken before the start-up script ran."""

    status: Annotated[
        ProofStatus,
        Field(description=f"`pending`: awaited. `none`: no evidence arrived in time. {GROWS}"),
    ]
    at: Annotated[Moment | None, Field(description="When the proof arrived. Null: none has arrived.")]
    via: Annotated[ProofChannel | None, Field(description=f"How the proof arrived. {GROWS}")]
    driver_version: Annotated[str | None, Field(description="Version of the GPU driver.")]
    cuda_version: Annotated[str | None, Field(description="Version of CUDA that the driver supports.")]
    gpus: list[ProvenGpu]
    findings: Annotated[list[GpuFinding], Field(description="The worst first.")]


class GpuHealth(View):
    """The health of the GPUs since the lease is active. Root in the VM can forge it."""

    status: Annotated[HealthStatus, Field(description="The health of all GPUs together. " + GROWS)]
    since: Moment
    findings: Annotated[list[GpuFinding], Field(description="The worst first.")]


class Utilization(View):
    """Use of all GPUs on average, as the VM reports it. Unknown values are null."""

    gpu_percent: Annotated[int | None, Field(description="Utilization of the GPUs in percent.")]
    memory_percent: Annotated[int | None, Field(description="GPU memory in use in percent.")]
    at: Annotated[Moment, Field(description="When the VM took the sample.")]
    refused: Annotated[
        int, Field(description="Samples of the lease's VMs that gpulease did not store, or not as they came.")
    ]


class Idleness(View):
    """All GPUs are used 5 % or less."""

    since: Annotated[Moment, Field(description="The first of the idle samples in a row.")]
    ends_at: Annotated[
        Moment | None, Field(description="When the lease ends if its GPUs stay idle. Null: it does not end for that.")
    ]

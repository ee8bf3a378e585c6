"""Options of a lease request about its GPUs: proof, failures, idleness and benchmark."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli import values

if TYPE_CHECKING:
    from app.cli.errors import Json

_GPUS = "GPUs"
IdleAfter = Annotated[
    int | None,
    typer.Option(
        metavar="DURATION",
        parser=values.seconds,
        help="The lease counts as idle after this time with all GPUs at 5 % or less, such as 1h.",
        rich_help_panel=_GPUS,
    ),
]
IdleAction = Annotated[
    Literal["notify", "end"] | None,
    typer.Option(help="What happens to an idle lease. Default: notify.", rich_help_panel=_GPUS),
]


@dataclass(frozen=True)
class GpuOptions:
    """What a lease request says about its GPUs. The API fills in defaults for missing options."""

    proof: Annotated[
        Literal["auto", "required", "off"] | None,
        typer.Option(help="Whether the VM must prove its GPUs before the lease is active.", rich_help_panel=_GPUS),
    ] = None
    on_gpu_failure: Annotated[
        Literal["notify", "reboot", "replace", "end"] | None,
        typer.Option(help="What to do when a GPU fails.", rich_help_panel=_GPUS),
    ] = None
    idle_after: IdleAfter = None
    idle_action: IdleAction = None
    benchmark: Annotated[
        Literal["off", "quick"] | None,
        typer.Option(help="Measure the GPUs after the boot, in billed time.", rich_help_panel=_GPUS),
    ] = None

    def gpu_fields(self) -> "Json":
        """The members of the body. An option that is not given is null."""
        return {
            "proof": self.proof,
            "on_gpu_failure": self.on_gpu_failure,
            "idle": idle_rule(self.idle_after, self.idle_action),
            "benchmark": self.benchmark,
        }


def idle_rule(after: int | None, action: str | None) -> "Json | None":
    """As the API takes it. None without either option."""
    rule = {"after_seconds": after, "action": action}
    return {name: value for name, value in rule.items() if value is not None} or None

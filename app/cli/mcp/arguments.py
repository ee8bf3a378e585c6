"""The arguments of tools that describe leases, as one value."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import wraps
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict

from app.cli.errors import Json

Amount = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]{1,6})?$", examples=["12.50"])]
"An amount in USD as a decimal string."


class Mount(TypedDict):
    """A volume, and where the VM mounts it."""

    name: Annotated[str, Field(description="Name of a volume of the tool list_volumes.")]
    path: Annotated[str, Field(description="Absolute path outside the directories of the system, such as /data.")]


class Arguments:
    """Fields that become arguments of a tool, each of its own."""


@dataclass(frozen=True, kw_only=True)
class Hardware(Arguments):
    """The VMs to lease, for how long, and at which price."""

    ttl_seconds: Annotated[
        int, Field(ge=60, description="Term. A VM ends after it at the latest, even if nobody releases it.")
    ]
    gpu_model: Annotated[
        str | None,
        Field(description="GPU model such as H100, A100, L4 or T4. Give either gpu_model or instance_types."),
    ] = None
    gpu_count: Annotated[int, Field(ge=1, description="Exact number of GPUs of a VM.")] = 1
    gpu_memory_gib: Annotated[int | None, Field(ge=1, description="Minimum memory of each GPU, in GiB.")] = None
    instance_types: Annotated[
        list[str] | None, Field(description="Acceptable instance types of the clouds, instead of gpu_model.")
    ] = None
    market: Annotated[
        Literal["on_demand", "spot", "spot_first", "reserved", "reserved_first", "any"],
        Field(description="spot is cheaper, and the cloud may interrupt the VM. spot_first falls back to on_demand."),
    ] = "on_demand"
    providers: Annotated[list[str] | None, Field(description="Acceptable clouds. Default: all.")] = None
    regions: Annotated[list[str] | None, Field(description="Acceptable regions of the clouds. Default: all.")] = None
    max_price_per_hour: Annotated[
        Amount | None, Field(description="Maximum price of a VM, USD per hour, with disks and address.")
    ] = None

    def body(self) -> Json:
        """As the API takes it. What has its default is left out, so that a quote can give it."""
        members = {field.name: value for field in fields(self) if (value := getattr(self, field.name)) != field.default}
        details = {"count": members.pop("gpu_count", 1), "memory_gib": members.pop("gpu_memory_gib", None)}
        if (model := members.pop("gpu_model", None)) is not None:
            members["gpu"] = {"model": model} | {name: value for name, value in details.items() if value is not None}
        return members


@dataclass(frozen=True, kw_only=True)
class Preparation(Arguments):
    """How a VM is labelled and prepared."""

    wait_seconds: Annotated[
        int, Field(ge=0, description="Maximum wait for capacity. 0: try each fitting offering once.")
    ] = 0
    labels: Annotated[dict[str, str] | None, Field(description="Key-value pairs, for lists, costs and budgets.")] = None
    ssh_public_keys: Annotated[
        list[str] | None,
        Field(description="OpenSSH public keys that may log in. Default: the stored default keys of the API key."),
    ] = None
    startup_script: Annotated[
        str | None,
        Field(description="Script that the VM runs as root at its first boot. It begins with #!, such as #!/bin/bash."),
    ] = None
    image: Annotated[str | None, Field(description="Name of an image. Default: an image with GPU drivers.")] = None
    disk_gib: Annotated[int | None, Field(ge=1, description="Size of the disk, in GiB.")] = None

    def with_labels(self, labels: Mapping[str, str]) -> Self:
        """The same with these labels, which replace those of the same keys."""
        return replace(self, labels={**(self.labels or {}), **labels}) if labels else self


@dataclass(frozen=True, kw_only=True)
class LeaseArguments(Preparation, Hardware):
    """What to lease, for how long, and at most at which price."""

    max_cost: Annotated[
        Amount | None, Field(description="Spend cap in USD. The lease ends before its whole cost exceeds the cap.")
    ] = None
    name: Annotated[
        str | None, Field(description="Name of the lease. Give another name to get a second, otherwise equal lease.")
    ] = None
    volumes: Annotated[
        list[Mount] | None, Field(description="Volumes that the VM mounts, all of one zone. The VM runs there.")
    ] = None


def flat(tool: Callable[..., Any]) -> Callable[..., Any]:
    """The tool with each field of its Arguments as an argument of its own. Models make fewer mistakes with those."""
    signature = inspect.signature(tool, eval_str=True)
    nested = [parameter for parameter in signature.parameters.values() if _is_nested(parameter.annotation)]
    if not nested:
        return tool
    (request,) = nested
    kind, name = request.annotation, request.name
    names = [field.name for field in fields(kind)]

    @wraps(tool)
    def run(**values: Any) -> Any:
        return tool(**{name: kind(**{each: values.pop(each) for each in names}), **values})

    rest = [
        _keyword(parameter.name, parameter.annotation, parameter.default)
        for parameter in signature.parameters.values()
        if parameter.name != name
    ]
    parameters = [*_fields(kind), *rest]
    run.__signature__ = signature.replace(parameters=parameters)  # pyrefly: ignore[missing-attribute]  # inspect's documented way
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {
        "return": signature.return_annotation
    }
    return run


def _is_nested(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Arguments)


def _fields(kind: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        yield _keyword(field.name, hints[field.name], _EMPTY if field.default is MISSING else field.default)


_EMPTY = inspect.Parameter.empty


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

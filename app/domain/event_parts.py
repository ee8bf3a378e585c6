"""What the data of events is made of: reasons, errors, offerings, and their form in JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Self

from app.domain.event_types import EventType
from app.domain.gpus.findings import Finding, Severity
from app.domain.reasons import Origin, Reason, ReasonCode


def described(description: str, **more: Any) -> Any:
    """A field with the description that the API's schema shows."""
    return field(metadata={"description": description, **more})


def rfc3339(moment: datetime) -> str:
    """A time as events carry it: in UTC, with a Z."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def to_json(value: Any) -> Any:
    """A field's value in JSON. Dataclasses become objects, times become RFC 3339."""
    if is_dataclass(value):
        return {
            member.metadata.get("alias", member.name): to_json(getattr(value, member.name)) for member in fields(value)
        }
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, tuple):
        return [to_json(part) for part in value]
    if isinstance(value, Mapping):
        return {key: to_json(part) for key, part in value.items()}
    return str(value) if isinstance(value, StrEnum) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class EventData:
    """The data of an event. Each subclass belongs to one type and holds JSON values, times and parts of this module."""

    type: ClassVar[EventType]

    def as_json(self) -> dict[str, Any]:
        """The data as stored and returned. Every field is present."""
        encoded: dict[str, Any] = to_json(self)
        return encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class EventReason:
    """Why a lease changed its state."""

    code: ReasonCode = described("The reason.")
    message: str = described("One sentence for a person.")
    origin: Origin = described("The party that caused it.")
    retryable: bool = described("Whether the same request may succeed later.")

    @classmethod
    def of(cls, reason: Reason) -> Self:
        """The public part of a lease's reason."""
        return cls(code=reason.code, message=reason.message, origin=reason.origin, retryable=reason.retryable)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventError:
    """An error of a provider call. `provider_messages.public_error` makes it: it holds no text of the provider."""

    class_: str | None = described("The error class of gpulease.", alias="class")
    code: str | None = described("The provider's code.")
    message: str | None = described("A sentence of gpulease.")

    @classmethod
    def of(cls, error: Mapping[str, str | None]) -> Self:
        """`error`: {class, code, message}."""
        return cls(class_=error["class"], code=error["code"], message=error["message"])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFinding:
    """Something wrong with a GPU, or with all GPUs of a VM."""

    code: str = described("What it is, such as `gpu_missing` or `xid_79`.")
    severity: Severity = described("How bad it is.")
    gpu: str | None = described("The GPU's UUID. Null: all GPUs, or unknown.")
    message: str = described("One sentence for a person.")

    @classmethod
    def of(cls, finding: Finding) -> Self:
        """A finding as events carry it."""
        return cls(code=finding.code, severity=finding.severity, gpu=finding.gpu, message=finding.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOffering:
    """Where an attempt launches its VM."""

    provider: str = described("The cloud.")
    account: str = described("The name of the cloud account.")
    region: str = described("The region.")
    zone: str = described("The zone.")
    instance_type: str = described("The instance type.")
    market: str = described("`on_demand`, `spot` or `reserved`.")
    reservation: str | None = described("The reservation that serves the attempt.")
    price_per_hour: str = described("Price of the VM in USD, with its network disks and its public address.")

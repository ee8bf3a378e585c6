"""The checks of a cloud account: the rights, images, subnets, quotas and regions that leases need."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self


class CheckSubject(StrEnum):
    """What a check is about. `adapter`: the provider's adapter, when it offers no checks. The list may grow."""

    CREDENTIALS = "credentials"
    RIGHT = "right"
    REGION = "region"
    IMAGE = "image"
    SUBNET = "subnet"
    FIREWALL = "firewall"
    QUOTA = "quota"
    ADAPTER = "adapter"


class CheckResult(StrEnum):
    """The result of a check. `not_checked`: no harmless call shows it."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCheck:
    """One check. `name`: the right, image, subnet, quota or region. `region` None: the whole account.

    `detail`: what was read, or the provider's error. `fix`: what the operator must do; None for a passed check.
    """

    subject: CheckSubject
    name: str
    result: CheckResult
    detail: str = ""
    fix: str | None = None
    region: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The stored form, which the API also shows."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `as_json`."""
        parsed: dict[str, Any] = {"subject": CheckSubject(value["subject"]), "result": CheckResult(value["result"])}
        return cls(**{**value, **parsed})


def failures(checks: Iterable[AccountCheck]) -> list[AccountCheck]:
    """The failed checks, in their order."""
    return [check for check in checks if check.result is CheckResult.FAILED]

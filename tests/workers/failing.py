"""An AWS account whose calls fail as a test wants, whatever the cloud would answer; nothing is sent then."""

from collections.abc import Callable
from typing import Any

from app.settings import AccountSettings, Settings
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.errors import CredentialsRejected, OutcomeUnknown, Throttled, Unreachable

CALLS = (
    "launch",
    "identity",
    "image",
    "find",
    "get",
    "terminate",
    "reboot",
    "set_deadline",
    "leftovers",
    "console_output",
    "offered",
    "service_quotas",
    "create_volume",
    "attach_volume",
)
ASKED_LATER = Throttled("slow down", code="RequestLimitExceeded", retry_after=7)
SLOW_DOWN = Throttled("slow down", code="RequestLimitExceeded")
NOBODY_KNOWS = OutcomeUnknown("no answer", code="Timeout")
REJECTED = CredentialsRejected("not you", code="AuthFailure")
NO_LINE = Unreachable("no connection to the endpoint", code="EndpointConnectionError")


class Failing:
    """`errors`: what a call of the name raises now, until it is taken out. `connect` connects accounts so."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}

    def connect(self, account: AccountSettings, settings: Settings) -> AwsProvider:
        assert isinstance(account, AwsAccount)
        provider = AwsProvider(account, settings)
        for name in CALLS:
            setattr(provider, name, self._checked(name, getattr(provider, name)))
        return provider

    def _checked(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*given: Any, **named: Any) -> Any:
            if name in self.errors:
                raise self.errors[name]
            return call(*given, **named)

        return checked

"""A worker whose call to the cloud takes so long that it loses its claim: others go on before the answer is there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.settings import AccountSettings, Settings
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.errors import OutcomeUnknown

LOST = OutcomeUnknown("the connection broke", code="ConnectionClosedError")


@dataclass
class Answer:
    """How a call ends. `sent`: the cloud carries it out. `error`: what the caller learns; None: the cloud's answer.

    `shown`: what the caller is shown of that answer.
    """

    error: Exception | None = None
    sent: bool = False
    shown: Callable[[Any], Any] = lambda answer: answer

    def of(self, call: Callable[[], Any]) -> Any:
        result = call() if self.sent or self.error is None else None
        if self.error is not None:
            raise self.error
        return self.shown(result)


@dataclass
class Stall:
    """One call that stalls, before the request leaves or before the answer arrives, while `meanwhile` happens."""

    answer: Answer
    meanwhile: Callable[[], None]
    before: bool = True

    def of(self, call: Callable[[], Any]) -> Any:
        if self.before:
            self.meanwhile()
            return self.answer.of(call)
        try:
            return self.answer.of(call)
        finally:
            self.meanwhile()


@dataclass
class Scripted:
    """An AWS account whose next calls end as told, by their name; all others as the cloud answers them."""

    script: dict[str, list[Answer | Stall]] = field(default_factory=dict)

    def connect(self, account: AccountSettings, settings: Settings) -> AwsProvider:
        assert isinstance(account, AwsAccount)
        provider = AwsProvider(account, settings)
        names = ("identity", "image", "launch", "launch_batch", "find", "leftovers", "get", "terminate", "reboot")
        for name in (*names, "set_deadline"):
            setattr(provider, name, self._scripted(name, getattr(provider, name)))
        return provider

    def _scripted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def scripted(*given: Any, **named: Any) -> Any:
            coming = self.script.get(name)
            if not coming:
                return call(*given, **named)
            return coming.pop(0).of(lambda: call(*given, **named))

        return scripted

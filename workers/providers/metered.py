"""A wrapper around an adapter that times and traces its calls and counts failures by error class."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from app.observability.traces import Traces
from app.settings import AccountSettings, Settings
from workers.metrics import WorkerMetrics
from workers.permits import without_permit
from workers.providers.interfaces import Provider
from workers.providers.types import BatchLaunched, BatchResult, ListingPage

Connect = Callable[[AccountSettings, Settings], Provider]

CALLS = frozenset(
    {
        "identity",
        "offered",
        "prices",
        "part_prices",
        "service_quotas",
        "reservations",
        "image",
        "launch",
        "find",
        "launch_batch",
        "find_batch",
        "label_slots",
        "get",
        "ready",
        "interruptions",
        "events",
        "acknowledge",
        "terminate",
        "leftovers",
        "remove_leftover",
        "reboot",
        "console_output",
        "set_deadline",
    }
)
"""The methods of the interface that read one answer from the cloud.

`list` is timed by page. `plan` and `plan_batch` make no call. Only the dead-man switch uses `list_everywhere`, and only the command
`prices` uses `price_list`. Neither has metrics.
"""


class Metered:
    """Wraps the calls of an adapter. All other members are those of the adapter."""

    def __init__(
        self,
        provider: Provider,
        account: AccountSettings,
        metrics: WorkerMetrics,
        traces: Traces,
        monotonic: Callable[[], float],
    ) -> None:
        self._provider = provider
        self._account = account
        self._metrics = metrics
        self._traces = traces
        self._monotonic = monotonic

    def __getattr__(self, name: str) -> Any:
        """Returns a member of the adapter. A timed call is stored, so that Python looks it up here only once."""
        member = getattr(self._provider, name)
        if name in CALLS:
            member = self._timed(name, member)
            self.__dict__[name] = member
        return member

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Times each page separately, because the time that the caller spends between pages is not the cloud's."""
        pages = iter(self._provider.list(regions, installation))
        following = self._timed("list", lambda: next(pages, None))
        while (page := following()) is not None:
            yield page

    def _timed(self, operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
        about = {"gpulease__account": self._account.name, "cloud__provider": self._account.provider}

        def timed(*arguments: Any, **named: Any) -> Any:
            started, failed = self._monotonic(), None
            try:
                with self._traces.span(operation, **about), without_permit():
                    answer = call(*arguments, **named)
            except Exception as error:
                failed = type(error).__name__
                raise
            else:
                failed = _refusal(answer)
                return answer
            finally:
                seconds = self._monotonic() - started
                self._metrics.called(self._account.provider, self._account.name, operation, seconds, failed)

        return timed


def _refusal(answer: Any) -> str | None:
    """The error class of the first refused item of a call, or None."""
    match answer:
        case BatchResult(refused=errors) | BatchLaunched(missing=errors):
            return next((error.kind for error in errors.values()), None)
    return None


def metered(connect: Connect, metrics: WorkerMetrics, traces: Traces, monotonic: Callable[[], float]) -> Connect:
    """Connects accounts as `connect` does, but times and traces their calls."""

    def connect_metered(account: AccountSettings, settings: Settings) -> Provider:
        return cast(Provider, Metered(connect(account, settings), account, metrics, traces, monotonic))

    return connect_metered

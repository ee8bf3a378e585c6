"""An adapter whose calls are timed and traced, and whose failures are counted by class."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from app.observability.traces import Traces
from app.settings import AccountSettings, Settings
from workers.metrics import WorkerMetrics
from workers.providers.interfaces import Provider
from workers.providers.types import BatchResult, ListingPage

Connect = Callable[[AccountSettings, Settings], Provider]

CALLS = frozenset(
    {
        "identity",
        "offered",
        "prices",
        "service_quotas",
        "image",
        "launch",
        "find",
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
"""The interface's methods that ask the cloud for one answer. `list` is timed by page, `plan` asks nobody.

`list_everywhere` is the dead-man switch's, which counts nothing.
"""


class Metered:
    """Stands in for an adapter: everything but the calls is the adapter's own."""

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
        """Asked for once for each name: a timed call is kept."""
        found = getattr(self._provider, name)
        if name in CALLS:
            found = self._timed(name, found)
            self.__dict__[name] = found
        return found

    def list(self, regions: frozenset[str], installation: str) -> Iterator[ListingPage]:
        """Times each page by itself: what is done with it in between is not the cloud's."""
        pages = iter(self._provider.list(regions, installation))
        following = self._timed("list", lambda: next(pages, None))
        while (page := following()) is not None:
            yield page

    def _timed(self, operation: str, call: Callable[..., Any]) -> Callable[..., Any]:
        about = {"gpulease__account": self._account.name, "cloud__provider": self._account.provider}

        def timed(*arguments: Any, **named: Any) -> Any:
            started, failed = self._monotonic(), None
            try:
                with self._traces.span(operation, **about):
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
    """The class of the first refusal among the items of a call."""
    refused = answer.refused.values() if isinstance(answer, BatchResult) else ()
    return next((error.kind for error in refused), None)


def metered(connect: Connect, metrics: WorkerMetrics, traces: Traces, monotonic: Callable[[], float]) -> Connect:
    """Connects accounts as `connect` does, with their calls timed and traced."""

    def connect_metered(account: AccountSettings, settings: Settings) -> Provider:
        return cast(Provider, Metered(connect(account, settings), account, metrics, traces, monotonic))

    return connect_metered

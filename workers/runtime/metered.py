"""A wrapper around an adapter that times and traces its calls and counts failures by error class."""

from collections.abc import Callable, Iterator
from typing import Any, cast

import structlog

from app.observability.traces import Traces
from app.settings import AccountSettings, Settings
from workers.providers.errors import ProviderError
from workers.providers.ports import CALLS, Provider
from workers.providers.types import BatchLaunched, BatchResult, ListingPage
from workers.runtime.metrics import WorkerMetrics
from workers.runtime.permits import without_permit

log = structlog.get_logger(__name__)

Connect = Callable[[AccountSettings, Settings], Provider]

TIMED = frozenset(name for name, call in CALLS.items() if call.timed)
"""`list` is timed by page."""

_LAUNCHING = frozenset({"launch", "launch_batch", "image"})
"""Calls whose failure leaves a lease without a VM."""


class MeteredProvider:
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
        if name in TIMED:
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
                self._log_launch(operation, failed, getattr(error, "code", None))
                raise
            else:
                refusal = _refusal(answer)
                if refusal is not None:
                    failed = refusal.kind
                    self._log_launch(operation, failed, refusal.code)
                return answer
            finally:
                seconds = self._monotonic() - started
                self._metrics.called(self._account.provider, self._account.name, operation, seconds, failed)

        return timed

    def _log_launch(self, operation: str, kind: str, code: str | None) -> None:
        if operation in _LAUNCHING:
            log.warning("launch failed", account=self._account.name, operation=operation, kind=str(kind), code=code)


def _refusal(answer: Any) -> ProviderError | None:
    """The error of the first refused item of a call, or None."""
    match answer:
        case BatchResult(refused=errors) | BatchLaunched(missing=errors):
            return next(iter(errors.values()), None)
    return None


def metered(connect: Connect, metrics: WorkerMetrics, traces: Traces, monotonic: Callable[[], float]) -> Connect:
    """Connects accounts as `connect` does, but times and traces their calls."""

    def connect_metered(account: AccountSettings, settings: Settings) -> Provider:
        return cast(Provider, MeteredProvider(connect(account, settings), account, metrics, traces, monotonic))

    return connect_metered

"""Traces by OpenTelemetry, where the standard OTEL_ variables ask for them.

Otherwise nothing of it is imported, and a span costs a call.
"""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from app.settings.errors import StartupError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
EXPORTER = "OTEL_TRACES_EXPORTER"

Value = str | int | None


class Span:
    """An operation in a trace. This one is not exported."""

    def tell(self, name: str | None = None, **attributes: Value) -> None:
        """Renames the span and adds attributes. In their names `__` stands for a dot. None is omitted."""


class Traces:
    """Traces that are off, the default."""

    def root(
        self, name: str, request_id: str | None, *, serves: bool = False, **attributes: Value
    ) -> AbstractContextManager[Span]:
        """The outermost work for a request in this process. All work for the same one is a trace, in any process.

        `serves`: somebody waits for the answer.
        """
        del name, request_id, serves, attributes
        return _NOTHING

    def span(self, name: str, **attributes: Value) -> AbstractContextManager[Span]:
        """Work within the present one."""
        del name, attributes
        return _NOTHING


_NOTHING = nullcontext(Span())


def load_traces(service: str, environment: Mapping[str, str] = os.environ) -> Traces:
    """The traces that the environment enables. Raises StartupError when the extra `otel` is needed and missing, or an exporter unknown."""
    if not asked_for(environment):
        return Traces()
    try:
        from app.observability.otel import exporter_named, traces_to  # noqa: PLC0415 - an optional extra, and slow to import
    except ImportError:
        msg = "OTEL_ variables ask for traces, but OpenTelemetry's SDK is not installed: install the extra `otel`"
        raise StartupError(msg) from None
    return traces_to(exporter_named(environment.get(EXPORTER) or "otlp"), service)


def asked_for(environment: Mapping[str, str]) -> bool:
    """Whether an exporter or an endpoint is named, and neither `OTEL_SDK_DISABLED` nor the exporter `none` forbids it."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get(EXPORTER) == "none":
        return False
    return any(environment.get(name) for name in (EXPORTER, *_ENDPOINTS))

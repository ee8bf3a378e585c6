"""Traces by OpenTelemetry's SDK, which comes with the extra `otel`.

The id of a trace is derived from the id of the request. The workers' steps for a lease are therefore in the trace of
the request that last changed the lease. The API passes no trace context to the workers. A sampler that decides by the
trace's id makes the same decision in every process.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Span as SdkSpan
from opentelemetry.trace import SpanKind, StatusCode, use_span

from app.observability.traces import EXPORTER, Span, Traces, Value
from app.settings.errors import StartupError

_REQUEST: ContextVar[str | None] = ContextVar("gpulease_traced_request", default=None)


def exporter_named(name: str) -> SpanExporter:
    """`otlp` (over HTTP, to the endpoint in its own variables) or `console`. Raises StartupError for another name."""
    if name == "otlp":
        return OTLPSpanExporter()
    if name == "console":
        return ConsoleSpanExporter()
    raise StartupError(f"{EXPORTER} is {name}; otlp, console and none are known")


def traces_to(exporter: SpanExporter, service: str) -> Traces:
    """Sends spans in batches, the last ones when the process ends. OTEL_ variables configure sampler and resource."""
    return SdkTraces(BatchSpanProcessor(exporter), service)


class SdkTraces(Traces):
    """Spans record the operation, its subject and its result.

    A failed span contains the error class, never the message.
    """

    def __init__(self, processor: SpanProcessor, service: str) -> None:
        # the environment takes precedence; `Resource.create()` alone would name an unnamed service `unknown_service`
        resource = Resource.create({"service.name": service}).merge(OTELResourceDetector().detect())
        provider = TracerProvider(resource=resource, id_generator=_Ids())
        provider.add_span_processor(processor)
        self._tracer = provider.get_tracer("gpulease")

    @contextmanager
    def root(self, name: str, request_id: str | None, *, serves: bool = False, **attributes: Value) -> Iterator[Span]:
        """See Traces."""
        about = _named({"gpulease__request_id": request_id, **attributes})
        token = _REQUEST.set(request_id)
        try:
            kind = SpanKind.SERVER if serves else SpanKind.INTERNAL
            span = self._tracer.start_span(name, Context(), kind, attributes=about)
        finally:
            _REQUEST.reset(token)
        with self._within(span) as traced:
            yield traced

    @contextmanager
    def span(self, name: str, **attributes: Value) -> Iterator[Span]:
        """See Traces."""
        with self._within(self._tracer.start_span(name, attributes=_named(attributes))) as traced:
            yield traced

    @contextmanager
    def _within(self, span: SdkSpan) -> Iterator[Span]:
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield _OtelSpan(span)
            except BaseException as error:
                span.set_status(StatusCode.ERROR)
                span.set_attribute("error.type", type(error).__name__)
                raise


class _OtelSpan(Span):
    def __init__(self, span: SdkSpan) -> None:
        self._span = span

    def tell(self, name: str | None = None, **attributes: Value) -> None:
        """See Span."""
        if name is not None:
            self._span.update_name(name)
        self._span.set_attributes(_named(attributes))


class _Ids(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        """The same id for the same request. The id is never 0, which is no valid id."""
        request_id = _REQUEST.get()
        if request_id is None:
            return super().generate_trace_id()
        return int.from_bytes(hashlib.sha256(request_id.encode()).digest()[:16]) or 1


def _named(attributes: Mapping[str, Value]) -> dict[str, str | int]:
    return {name.replace("__", "."): value for name, value in attributes.items() if value is not None}

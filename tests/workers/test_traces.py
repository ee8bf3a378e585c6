"""Traces: one for a request, from the API through the workers' steps to the calls, and nothing at all unless asked for."""

import sys
from collections.abc import Callable, Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.bootstrap import build_api
from app.observability.otel import SdkTraces, exporter_named
from app.observability.traces import Traces, asked_for, load_traces
from app.prerequisites import ensure_operator_key
from app.settings import StartupError, load_settings
from tests.api.conftest import Caller, new_tenant
from tests.house.sources import imports_below
from tests.workers.fleet import Fleet

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> Traces:
    return SdkTraces(SimpleSpanProcessor(exporter), "gpulease-test")


def named(exporter: InMemorySpanExporter, name: str) -> ReadableSpan:
    [found] = [span for span in exporter.get_finished_spans() if span.name == name]
    return found


async def test_a_request_its_steps_and_their_calls_are_one_trace(
    make_fleet: Callable[..., Fleet],
    traces: Traces,
    exporter: InMemorySpanExporter,
    database_url: str,
    broker_url: str,
) -> None:
    fleet = make_fleet(traces=traces)
    app = build_api(load_settings(database_url=database_url, broker_url=broker_url), traces)
    async with app.router.lifespan_context(app):
        tenant = await new_tenant(Caller(app, ensure_operator_key(database_url, None)), "alice", gpus=8)
        made = await tenant.post("/v1/leases", json={"instance_types": ["g5.xlarge"], "ttl_seconds": 3600})
    lease_id = made.json()["id"]
    fleet.drive_to(lease_id, "active")
    request, send, launch = (named(exporter, name) for name in ("POST /v1/leases", "Send", "launch"))
    assert request.context is not None
    assert send.context is not None
    assert launch.context is not None
    assert request.context.trace_id == send.context.trace_id == launch.context.trace_id
    assert launch.parent is not None
    assert launch.parent.span_id == send.context.span_id
    assert (request.parent, send.parent) == (None, None)
    assert dict(request.attributes or {}) == {
        "gpulease.request_id": made.headers["x-request-id"],
        "gpulease.tenant_id": tenant.tenant_id,
        "http.request.method": "POST",
        "http.route": "/v1/leases",
        "http.response.status_code": 201,
    }
    assert (send.attributes or {})["gpulease.lease_id"] == lease_id
    assert (launch.attributes or {})["cloud.provider"] == "aws"
    fleet.end(lease_id)
    fleet.drive_to(lease_id, "released")


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "gpulease-test"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=prod"}, "gpulease-test"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=from-attributes"}, "from-attributes"),
        ({"OTEL_SERVICE_NAME": "from-name"}, "from-name"),
    ],
)
def test_a_service_has_its_processes_name_unless_the_environment_names_it(
    variables: Mapping[str, str], name: str, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    with SdkTraces(SimpleSpanProcessor(exporter), "gpulease-test").root("work", None):
        pass
    attributes = named(exporter, "work").resource.attributes
    assert attributes["service.name"] == name
    assert attributes["telemetry.sdk.language"] == "python"
    assert attributes.get("deployment.environment") == ("prod" if "prod" in str(variables) else None)


def test_a_failure_is_told_by_its_class_and_not_by_its_words(traces: Traces, exporter: InMemorySpanExporter) -> None:
    with pytest.raises(ValueError, match="secret"), traces.root("work", None), traces.span("call"):
        raise ValueError("a secret")
    call = named(exporter, "call")
    assert (call.attributes or {})["error.type"] == "ValueError"
    assert "secret" not in call.to_json()
    assert call.context is not None
    assert call.context.trace_id != 0


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_the_standard_variables_ask_for_traces(environment: Mapping[str, str], *, asked: bool) -> None:
    assert asked_for(environment) is asked
    assert asked or type(load_traces("api", environment)) is Traces


def test_an_exporter_is_chosen_by_its_name() -> None:
    assert isinstance(exporter_named("console"), ConsoleSpanExporter)
    with pytest.raises(StartupError, match="OTEL_TRACES_EXPORTER is zipkin"):
        load_traces("api", {"OTEL_TRACES_EXPORTER": "zipkin"})


def test_asking_without_the_extra_is_answered_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "app.observability.otel", None)
    with pytest.raises(StartupError, match="install the extra `otel`"):
        load_traces("api", ENDPOINT)


def test_unless_asked_for_nothing_of_it_is_imported() -> None:
    imports = [*imports_below("app"), *imports_below("workers")]
    assert {file for file, name in imports if name.startswith("opentelemetry")} == {"app/observability/otel.py"}
    assert {file for file, name in imports if name.startswith("app.observability.otel")} == {
        "app/observability/traces.py"
    }

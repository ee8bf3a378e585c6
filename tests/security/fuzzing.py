"""Schemathesis against the running application: requests made from openapi.json, sent by two tenants and an operator."""

import json
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jsonschema
import requests
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import (
    allow_header_conformance,
    content_type_conformance,
    ensure_resource_availability,
    missing_required_header,
    negative_data_rejection,
    not_a_server_error,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
    use_after_free,
)
from schemathesis.core.result import Ok

from app.bootstrap import build_api
from app.local.ports import LOOPBACK
from app.local.waiting import wait_until
from app.server.limits import BoundedProtocol
from app.settings import Settings
from tests.described import document
from tests.security.named_reasons import is_named
from tests.security.routes import OPERATIONS, Operation, closed

CHECKS = [
    allow_header_conformance,
    content_type_conformance,
    ensure_resource_availability,
    missing_required_header,
    negative_data_rejection,
    not_a_server_error,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
    use_after_free,
]
"""`positive_data_acceptance`: a request that the description allows is refused only for a reason that `named_reasons.py`
names. Left out: `ignored_auth` and `object_level_authorization`: the tenancy matrix tries every role on every operation.
"""

Described = APIOperation[Any, Any, Any, Any]
RANK = ["nobody", "viewer", "member", "admin", "deadman", "operator"]
"""A route that needs `deadman` listens to operators and to no tenant."""
PATIENCE = 30.0


@dataclass(frozen=True)
class Sender:
    """Somebody with a key, or with a VM's token, whose role is none."""

    role: str
    key: str

    def may(self, role: str | None) -> bool:
        """Whether a route that needs `role` listens to this sender. It listens to a VM when it needs no role."""
        return RANK.index(self.role) >= RANK.index(role or "nobody")


@contextmanager
def serving(configured: Settings) -> Iterator[str]:
    """The address of the application behind the real server, in a thread of its own."""
    listener = socket.create_server((LOOPBACK, 0))
    options: dict[str, Any] = {"ws": "none", "lifespan": "on", "log_config": None, "server_header": False}
    server = uvicorn.Server(uvicorn.Config(build_api(configured), http=BoundedProtocol, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert wait_until(lambda: server.started, timeout=PATIENCE)
    yield f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE)


def operations(chosen: Iterable[Operation] = OPERATIONS) -> list[Described]:
    """Every operation of openapi.json that ends, its answers closed to fields that are not declared."""
    paths: dict[str, Any] = {}
    for one in chosen:
        parameters = [each for each in one.spec.get("parameters", ()) if each["name"] != "poll_seconds"]
        paths.setdefault(one.path, {})[one.method.lower()] = {**one.spec, "security": [], "parameters": parameters}
    shut = {**document(), "paths": paths, "components": {**document()["components"], "schemas": closed()}}
    made = []
    for found in schemathesis.openapi.from_dict(shut).get_all_operations():
        assert isinstance(found, Ok), found
        made.append(found.ok())
    return made


def cases(operation: Described, ids: Mapping[str, list[str]]) -> st.SearchStrategy[Case[Any]]:
    """Requests as they should be, and requests that break the description; on made-up ids and on those that exist."""
    names = [parameter.name for parameter in operation.path_parameters]
    chosen: list[dict[str, str] | None] = [None]
    if names:
        most = max(len(ids[name]) for name in names)
        chosen += [{name: ids[name][n % len(ids[name])] for name in names} for n in range(most)]
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    return st.one_of(
        [operation.as_strategy(generation_mode=mode, path_parameters=one) for mode in modes for one in chosen]
    )


def checks_of(answer: requests.Response) -> list[Any]:
    """All checks, except that a refusal with a named reason may meet a valid request."""
    named = 400 <= answer.status_code < 500 and bool(answer.text) and is_named(answer.json())
    return [check for check in CHECKS if not (named and check is positive_data_acceptance)]


class Fuzzer:
    """Sends what is drawn and checks each answer. `statuses`: how often each was answered, by operation."""

    def __init__(self, url: str, senders: list[Sender], ids: Mapping[str, list[str]]) -> None:
        self._url = url
        self._senders = senders
        self._ids = ids
        self._session = requests.Session()
        self._session.trust_env = False
        self.statuses: dict[str, dict[int, int]] = {}

    def run(self, operation: Described, examples: int, *, derandomize: bool) -> None:
        """Raises what a check raises, with the smallest request that does it."""
        able = [sender for sender in self._senders if sender.may(operation.definition.raw.get("x-role"))]
        counts = self.statuses.setdefault(str(operation.definition.raw["operationId"]), {})

        @settings(
            max_examples=examples,
            derandomize=derandomize,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        )
        @given(case=cases(operation, self._ids), sender=st.sampled_from([*able, *able, *able, *self._senders]))
        def send(case: Case[Any], sender: Sender) -> None:
            answer = self._ask(case, sender)
            counts[answer.status_code] = counts.get(answer.status_code, 0) + 1
            case.validate_response(answer, checks=checks_of(answer))

        send()

    def _ask(self, case: Case[Any], sender: Sender) -> Any:
        headers = {"Authorization": f"Bearer {sender.key}"}
        return case.call(base_url=self._url, session=self._session, headers=headers)

    def close(self) -> None:
        """Lets go of the connections."""
        self._session.close()


class StreamFuzzer(Fuzzer):
    """For operations that never end: reads until the stream says that nothing is new, and checks each message."""

    def __init__(self, url: str, senders: list[Sender], ids: Mapping[str, list[str]]) -> None:
        super().__init__(url, senders, ids)
        self.messages = 0

    def _ask(self, case: Case[Any], sender: Sender) -> Any:
        headers = {"Authorization": f"Bearer {sender.key}"}
        arguments = case.as_transport_kwargs(base_url=self._url, headers=headers)
        with self._session.request(**arguments, stream=True, timeout=PATIENCE) as answer:
            if answer.status_code != 200:
                assert answer.content
            else:
                answer._content = b"".join(_until_quiet(answer.iter_lines()))
                self.messages += check_messages(answer.text)
        return answer


def _until_quiet(lines: Iterator[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line + b"\n"
        if line.startswith(b":"):
            return


def check_messages(stream: str) -> int:
    """How many messages a stream has. Fails when one is not as `EventStreamMessage` and `Event` declare it."""
    shut = {"components": {"schemas": closed()}}
    blocks = [block for block in stream.split("\n\n") if block.startswith("id:")]
    for block in blocks:
        message = dict(line.split(": ", 1) for line in block.splitlines())
        jsonschema.validate(message, {"$ref": "#/components/schemas/EventStreamMessage", **shut})
        event = json.loads(message["data"])
        jsonschema.validate(event, {"$ref": "#/components/schemas/Event", **shut})
        assert (message["id"], message["event"]) == (str(event["sequence"]), event["type"])
    return len(blocks)

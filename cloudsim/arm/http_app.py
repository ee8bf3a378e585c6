"""`/subscriptions/…`: reads one request to Resource Manager, lets it through the gate, does the work, writes the answer."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from cloudsim.admission import DroppedConnection, Gate
from cloudsim.arm import prices, subscriptions
from cloudsim.arm.call import Answer, Call
from cloudsim.arm.catalog import PROVIDER
from cloudsim.arm.errors import THROTTLED, ArmError
from cloudsim.arm.machines import serial_console
from cloudsim.arm.operations import OPERATIONS, Operation
from cloudsim.arm.permissions import check
from cloudsim.credentials import Credentials
from cloudsim.world import Fault, FaultMode, World
from cloudsim.world.faults import TOKEN

DEFAULT_FAULT_CODE = "InternalServerError"
RETRY_SECONDS = "1"
_BEARER = "Bearer "
_IDENTITY_PATH = "/metadata/identity/oauth2/token"
_TOKEN_SECONDS = 86_400

Endpoint = Callable[[Request], Awaitable[Response]]


class ArmFront:
    """All subscriptions. The bearer token is any text that is not among the bad credentials."""

    def __init__(self, world: World, gate: Gate, credentials: Credentials) -> None:
        self.world = world
        self._gate = gate
        self._credentials = credentials

    def routes(self) -> list[Route]:
        """One for each operation, the console's blobs, the price list, and the tokens of managed identities."""
        console = Route("/bootdiagnostics/{vm}/serialconsole.log", self._console, methods=["GET"])
        retail = Route(prices.PATH, self._retail, methods=["GET"])
        token = Route(_IDENTITY_PATH, self._token, methods=["GET"])
        operations = [
            Route(operation.path, self._endpoint(operation), methods=[operation.method]) for operation in OPERATIONS
        ]
        return [*operations, console, retail, token]

    def _endpoint(self, operation: Operation) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            try:
                return await self._answer(request, operation)
            except ArmError as error:
                return _refusal(error)

        return endpoint

    async def _answer(self, request: Request, operation: Operation) -> Response:
        body = _read(await request.body())
        self._authenticate(request)
        if "api-version" not in request.query_params:
            raise ArmError("MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required.")
        region = str(request.path_params.get("location") or body.get("location") or "").lower()
        verdict = await self._gate.admit(request, PROVIDER, operation.name, region)
        if verdict.drop_before:
            return DroppedConnection()
        if verdict.fault is not None:
            raise _fault_error(verdict.fault)
        answer = self._work(request, operation, body, verdict.change)
        return DroppedConnection() if verdict.drop_after else _response(answer)

    def _authenticate(self, request: Request) -> None:
        header = request.headers.get("authorization", "")
        token = header.removeprefix(_BEARER)
        if not header.startswith(_BEARER) or not token or token in self._credentials.bad:
            raise ArmError("InvalidAuthenticationToken", "The access token is invalid.")

    def _work(self, request: Request, operation: Operation, body: dict[str, Any], change: Fault | None) -> Answer:
        subscription = request.path_params["subscription"].lower()
        now = self.world.advance()
        if self.world.settings.rate_limits:
            for bucket, rate in operation.buckets:
                if not self.world.buckets.take((PROVIDER, subscription, bucket), rate, now):
                    raise ArmError(THROTTLED, "Too many requests.")
        call = Call(
            world=self.world,
            base=str(request.base_url).rstrip("/"),
            url=str(request.url.replace(query="")).rstrip("?").rstrip("?"),
            subscription=subscription,
            path=request.path_params,
            query={name.lower(): value for name, value in request.query_params.items()},
            headers=request.headers,
            body=body,
            change=change,
        )
        check(call, operation.name)
        subscriptions.check(call, operation.path, operation.method)
        return operation.handler(call)

    async def _retail(self, request: Request) -> Response:
        """Another service, which knows nobody."""
        verdict = await self._gate.admit(request, PROVIDER, prices.NAME, "")
        if verdict.drop_before:
            return DroppedConnection()
        if verdict.fault is not None:
            return _refusal(_fault_error(verdict.fault))
        answer = Answer(prices.retail(self.world, request.query_params, str(request.url.replace(query="")).rstrip("?")))
        return DroppedConnection() if verdict.drop_after else _response(answer)

    async def _token(self, request: Request) -> Response:
        """A managed identity's token, as the metadata service of an Azure VM gives it. Faults meet operation `token`."""
        verdict = await self._gate.admit(request, PROVIDER, TOKEN, "")
        if verdict.drop_before or verdict.drop_after:
            return DroppedConnection()
        if verdict.fault is not None:
            return _response(Answer({"error": verdict.fault.code or "unavailable"}, 500, {}))
        lifetime = str(_TOKEN_SECONDS)
        expires_on = str(int(self.world.advance()) + _TOKEN_SECONDS)
        resource = request.query_params.get("resource", "")
        answer = {
            "access_token": "of-a-managed-identity",
            "expires_in": lifetime,
            "expires_on": expires_on,
            "resource": resource,
        }
        return _response(Answer({**answer, "token_type": "Bearer"}))

    async def _console(self, request: Request) -> Response:
        """The blob: its address is the permission."""
        now = self.world.advance()
        vm = self.world.vms.get(request.path_params["vm"])
        text = serial_console(vm, now) if vm is not None and vm.provider == PROVIDER else ""
        return PlainTextResponse(text) if text else PlainTextResponse("", status_code=404)


def _read(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body) if body else {}
    except ValueError:
        raise ArmError(
            "InvalidRequestContent", "The request content was invalid and could not be deserialized."
        ) from None
    if not isinstance(document, dict):
        raise ArmError("InvalidRequestContent", "The request content is not an object.")
    return document


def _fault_error(fault: Fault) -> ArmError:
    if fault.mode is FaultMode.THROTTLE:
        return ArmError(fault.code or THROTTLED, "Too many requests.")
    return ArmError(fault.code or DEFAULT_FAULT_CODE, "A fault was put upon this call by the simulator.")


def _refusal(error: ArmError) -> Response:
    headers = {"Retry-After": RETRY_SECONDS} if error.status == 429 else {}
    return _response(Answer({"error": {"code": error.code, "message": error.message}}, error.status, headers))


def _response(answer: Answer) -> Response:
    headers = {**answer.headers, "x-ms-request-id": str(uuid.uuid4())}
    content = b"" if answer.body is None else json.dumps(answer.body).encode()
    return Response(content, status_code=answer.status, headers=headers, media_type="application/json")

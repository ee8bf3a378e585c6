"""`POST /`: reads one AWS request, lets it through the gate, does the work, writes the answer."""

from __future__ import annotations

import uuid

from starlette.requests import Request
from starlette.responses import Response

from cloudsim.admission import DroppedConnection, Gate
from cloudsim.credentials import Credentials, Scope, read_scope
from cloudsim.ec2 import views
from cloudsim.ec2.call import Call, RenderCache, Result
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.encode import EncodedXml
from cloudsim.ec2.errors import AwsError, dry_run
from cloudsim.ec2.launch import launched_vms
from cloudsim.ec2.operations import LAUNCHED_VMS, OPERATIONS, Operation
from cloudsim.ec2.protocols import Ec2Protocol, Protocol, name_of, protocol
from cloudsim.world import Fault, FaultMode, Vm, World

DEFAULT_FAULT_CODE = "InternalError"


class AwsFront:
    """All AWS services simulated here, all regions and accounts, on one path."""

    def __init__(self, world: World, gate: Gate, credentials: Credentials) -> None:
        self.world = world
        self.credentials = credentials
        self._gate = gate
        self._cache = RenderCache()
        ec2 = protocol("ec2")
        assert isinstance(ec2, Ec2Protocol)
        self._encode_reservation = ec2.renderer("Reservation")

    async def endpoint(self, request: Request) -> Response:
        """`POST /`."""
        body = await request.body()
        try:
            service, name = name_of(request.headers.get("x-amz-target"), body)
        except AwsError as error:
            return self._refuse(protocol("ec2"), error)
        dialect = protocol(service)
        try:
            return await self._answer(request, dialect, service, name, body)
        except AwsError as error:
            return self._refuse(dialect, error)

    async def _answer(self, request: Request, dialect: Protocol, service: str, name: str, body: bytes) -> Response:
        operation = OPERATIONS.get((service, name))
        if operation is None:
            raise AwsError("InvalidAction", f"The action {name} is not valid for this web service.")
        scope = self._scope(request)
        verdict = await self._gate.admit(request, PROVIDER, name, scope.region)
        if verdict.drop_before:
            return DroppedConnection()
        if verdict.fault is not None:
            raise self._fault_error(dialect, verdict.fault.mode, verdict.fault.code)
        text = dialect.write(name, self._work(dialect, operation, scope, body, verdict.change), str(uuid.uuid4()))
        return DroppedConnection() if verdict.drop_after else Response(text, media_type=dialect.media_type)

    def _scope(self, request: Request) -> Scope:
        scope = read_scope(request.headers.get("authorization"))
        if scope.region not in self.world.catalogs[PROVIDER].regions:
            raise AwsError("AuthFailure", f"Credential should be scoped to a valid region, not {scope.region}.")
        return scope

    def _work(self, dialect: Protocol, operation: Operation, scope: Scope, body: bytes, change: Fault | None) -> Result:
        account = self.credentials.account(scope.access_key)
        if self.world.restrictions.first_denied(PROVIDER, [operation.action]):
            raise dialect.denied(operation.action)
        now = self.world.advance()
        params = dialect.read(operation.name, body)
        if self.world.settings.rate_limits:
            for bucket, rate in operation.buckets:
                amount = launched_vms(params) if bucket == LAUNCHED_VMS[0] else 1
                if not self.world.buckets.take((PROVIDER, account, scope.region, bucket), rate, now, amount):
                    raise dialect.throttled()
        if operation.name.startswith("Describe") and params.get("DryRun"):
            raise dry_run()
        return operation.handler(
            Call(
                world=self.world,
                credentials=self.credentials,
                cache=self._cache,
                render_reservation=self._render,
                access_key=scope.access_key,
                account=account,
                region=scope.region,
                params=params,
                change=change,
            )
        )

    def _render(self, vm: Vm) -> EncodedXml:
        return self._encode_reservation(views.reservation(self.world, vm))

    @staticmethod
    def _fault_error(dialect: Protocol, mode: FaultMode, code: str | None) -> AwsError:
        if mode is FaultMode.THROTTLE:
            return AwsError(code, "Request limit exceeded.") if code else dialect.throttled()
        return AwsError(code or DEFAULT_FAULT_CODE, "A fault was put upon this call by the simulator.")

    @staticmethod
    def _refuse(dialect: Protocol, error: AwsError) -> Response:
        text = dialect.write_error(error, str(uuid.uuid4()))
        return Response(text, status_code=error.status, media_type=dialect.media_type)

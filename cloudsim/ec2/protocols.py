"""The three dialects that botocore speaks to these services: EC2 query, plain query (STS, IAM), JSON 1.1."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import botocore.session
from botocore.model import OperationModel, ServiceModel

from cloudsim.ec2.call import Result
from cloudsim.ec2.decode import QueryDecoder
from cloudsim.ec2.encode import EncodedXml, XmlEncoder
from cloudsim.ec2.errors import JSON_THROTTLED, THROTTLED, AwsError

XML = "text/xml;charset=UTF-8"
JSON = "application/x-amz-json-1.1"
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_ACTION, _VERSION = re.compile(rb"(?:^|&)Action=(\w+)"), re.compile(rb"(?:^|&)Version=([\w-]+)")
_QUERY_SERVICES = {"2016-11-15": "ec2", "2011-06-15": "sts", "2010-05-08": "iam"}
_JSON_SERVICES = {
    "AmazonSSM": "ssm",
    "ServiceQuotasV20190624": "service-quotas",
    "AWSPriceListService": "pricing",
}


@cache
def service_model(service: str) -> ServiceModel:
    """The SDK's own description of a service."""
    return botocore.session.get_session().get_service_model(service)


class Protocol(ABC):
    """How one service's requests are read and its answers written."""

    media_type: str

    def __init__(self, service: str) -> None:
        self.service = service
        self.model = service_model(service)

    def operation(self, name: str) -> OperationModel:
        """The model of an operation that exists."""
        return self.model.operation_model(name)

    @abstractmethod
    def read(self, operation: str, body: bytes) -> dict[str, Any]:
        """Input members. Raises AwsError."""

    @abstractmethod
    def write(self, operation: str, result: Result, request_id: str) -> str:
        """The answer's body."""

    @abstractmethod
    def write_error(self, error: AwsError, request_id: str) -> str:
        """An error answer's body."""

    def throttled(self) -> AwsError:
        """Called too often."""
        return AwsError(THROTTLED, "Request limit exceeded.")

    def denied(self, action: str) -> AwsError:
        """The caller lacks the right to `action`."""
        return AwsError("AccessDenied", f"User is not authorized to perform: {action}")


class Ec2Protocol(Protocol):
    """The EC2 dialect of the query protocol."""

    media_type = XML

    def __init__(self, service: str) -> None:
        super().__init__(service)
        self._decoder = QueryDecoder(ec2=True)
        self._encoder = XmlEncoder()
        self._namespace = self.model.metadata["xmlNamespace"]

    def read(self, operation: str, body: bytes) -> dict[str, Any]:
        """From form fields."""
        return self._decoder.decode(self.operation(operation).input_shape, read_pairs(body))

    def write(self, operation: str, result: Result, request_id: str) -> str:
        """As XML."""
        shape = self.operation(operation).output_shape
        inner = self._encoder.encode(shape, result) if shape else "<return>true</return>"
        return (
            f'{_HEAD}<{operation}Response xmlns="{self._namespace}"><requestId>{request_id}</requestId>'
            f"{inner}</{operation}Response>"
        )

    def write_error(self, error: AwsError, request_id: str) -> str:
        """As XML."""
        return (
            f"{_HEAD}<Response><Errors><Error><Code>{escape(error.code)}</Code><Message>{escape(error.message)}"
            f"</Message></Error></Errors><RequestID>{request_id}</RequestID></Response>"
        )

    def denied(self, action: str) -> AwsError:
        """EC2 has a code of its own for it."""
        return AwsError("UnauthorizedOperation", f"You are not authorized to perform this operation: {action}")

    def renderer(self, shape_name: str) -> Callable[[dict[str, Any]], EncodedXml]:
        """Encodes values of one shape ahead of the answer they go into."""
        shape = self.model.shape_for(shape_name)
        return lambda value: EncodedXml(self._encoder.encode(shape, value))


class QueryProtocol(Protocol):
    """The plain query protocol."""

    media_type = XML

    def __init__(self, service: str) -> None:
        super().__init__(service)
        self._decoder = QueryDecoder(ec2=False)
        self._encoder = XmlEncoder()
        self._namespace = self.model.metadata["xmlNamespace"]

    def read(self, operation: str, body: bytes) -> dict[str, Any]:
        """From form fields."""
        return self._decoder.decode(self.operation(operation).input_shape, read_pairs(body))

    def write(self, operation: str, result: Result, request_id: str) -> str:
        """As XML."""
        shape = self.operation(operation).output_shape
        inner = self._encoder.encode(shape, result) if shape else ""
        return (
            f'{_HEAD}<{operation}Response xmlns="{self._namespace}"><{operation}Result>{inner}</{operation}Result>'
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{operation}Response>"
        )

    def write_error(self, error: AwsError, request_id: str) -> str:
        """As XML."""
        return (
            f'{_HEAD}<ErrorResponse xmlns="{self._namespace}"><Error><Type>Sender</Type>'
            f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message></Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )


class JsonProtocol(Protocol):
    """JSON 1.1 by X-Amz-Target."""

    media_type = JSON

    def read(self, operation: str, body: bytes) -> dict[str, Any]:
        """From a JSON object."""
        try:
            params = json.loads(body or b"{}")
        except ValueError:
            params = None
        if not isinstance(params, dict):
            raise AwsError("SerializationException", "The body is not a JSON object")
        shape = self.operation(operation).input_shape
        unknown = [name for name in params if shape is None or name not in shape.members]
        if unknown:
            raise AwsError("ValidationException", f"{unknown[0]} is not a parameter of {operation}")
        return params

    def write(self, operation: str, result: Result, request_id: str) -> str:  # noqa: ARG002  the XML dialects need them
        """As JSON, without name and request id."""
        return json.dumps(result)

    def write_error(self, error: AwsError, request_id: str) -> str:  # noqa: ARG002  the XML dialects need it
        """As JSON."""
        return json.dumps({"__type": error.code, "message": error.message})

    def throttled(self) -> AwsError:
        """The JSON services have their own code for it."""
        return AwsError(JSON_THROTTLED, "Rate exceeded")

    def denied(self, action: str) -> AwsError:
        """The JSON services have their own code for it."""
        return AwsError("AccessDeniedException", f"User is not authorized to perform: {action}")


@cache
def protocol(service: str) -> Protocol:
    """The one protocol object of a service."""
    kinds: dict[str, type[Protocol]] = {"ec2": Ec2Protocol, "sts": QueryProtocol, "iam": QueryProtocol}
    return kinds.get(service, JsonProtocol)(service)


def read_pairs(body: bytes) -> list[tuple[str, str]]:
    """Form fields. Raises AwsError for bytes that are no UTF-8 form."""
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body))
    except ValueError:
        raise AwsError("MalformedQueryString", "The query string is malformed") from None


def name_of(target: str | None, body: bytes) -> tuple[str, str]:
    """Service and operation that a request is for. Raises AwsError."""
    if target is not None:
        prefix, _, operation = target.partition(".")
        if prefix not in _JSON_SERVICES:
            raise AwsError("UnknownOperationException", f"no service {prefix} here")
        return _JSON_SERVICES[prefix], operation
    action, version = _ACTION.search(body), _VERSION.search(body)
    service = _QUERY_SERVICES.get(version.group(1).decode()) if version else None
    if service is None or action is None:
        raise AwsError("MissingAction", "The request must contain Action and a Version known here")
    return service, action.group(1).decode()

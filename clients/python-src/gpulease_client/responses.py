"""Responses of the API as errors and objects."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeVar

import httpx

from gpulease_client.errors import ApiError, GpuleaseError, UnexpectedResponseError
from gpulease_client.problems import BY_CODE
from gpulease_client.retries import retry_after

T = TypeVar("T")
_NO_CONTENT = 204


class Model(Protocol):
    """A generated object."""

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Self:
        """The object of a JSON document."""
        ...


def parsed(parse: Callable[[Any], T], response: httpx.Response) -> T:
    """The object of a document. Raises UnexpectedResponseError for a document that is not of the API's form."""
    try:
        return parse(response.json())
    except (LookupError, TypeError, ValueError, AttributeError):
        raise UnexpectedResponseError(response.status_code, response.text) from None


def media_type(response: httpx.Response) -> str:
    """The type of the body, without parameters."""
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def is_of_api(request: httpx.Request, response: httpx.Response) -> bool:
    """Whether a success that has been read can come from the API: no content, a JSON object, or text that was asked for."""
    kind = media_type(response)
    if kind in {"text/plain", "text/csv"}:
        return request.method == "GET"
    return response.status_code == _NO_CONTENT or (kind == "application/json" and is_whole(response))


def is_whole(response: httpx.Response) -> bool:
    """Whether the JSON of a success is an object. A body that ends too early is none."""
    try:
        return isinstance(json.loads(response.content), dict)
    except ValueError:
        return False


def error_of(response: httpx.Response) -> GpuleaseError:
    """The error of a response that has been read: the class of its code, or ApiError for a code without one."""
    try:
        problem = response.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "code" not in problem:
        return UnexpectedResponseError(response.status_code, response.text)
    kind = BY_CODE.get(str(problem["code"]), ApiError)
    return kind(problem, status=response.status_code, retry_after=retry_after(response))


def body_of(request: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON body of a generated object or mapping, with these fields on top. Generated objects may be fields too."""
    return {**(_plain(request) or {}), **{name: _plain(value) for name, value in fields.items()}}


def params_of(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The query without its None values."""
    return {name: _plain(value) for name, value in filters.items() if value is not None}


def _plain(value: Any) -> Any:
    """JSON of generated objects, enums and times, at any depth."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return getattr(value, "value", value)

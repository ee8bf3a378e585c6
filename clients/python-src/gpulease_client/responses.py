"""Responses of the API as errors and objects."""

from collections.abc import Mapping
from typing import Any, Protocol, Self

import httpx

from gpulease_client.errors import ApiError, GpuleaseError, UnexpectedResponseError
from gpulease_client.problems import BY_CODE
from gpulease_client.retries import retry_after


class Model(Protocol):
    """A generated object."""

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Self:
        """The object of a JSON document."""
        ...


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

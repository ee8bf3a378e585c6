"""Unknown query parameters are refused: a misspelt filter would widen the result without notice."""

from collections.abc import Iterator
from difflib import get_close_matches

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.services.errors import FieldError, InvalidRequest

_LONGEST_NAME = 80
_MOST_ERRORS = 20


def known_parameters(route: APIRoute) -> frozenset[str]:
    """Names of the query parameters that the route and its dependencies declare."""
    return frozenset(_declared(route.dependant))


def _declared(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _declared(dependency)


def check_query(request: Request, known: frozenset[str]) -> None:
    """Raises InvalidRequest that names each unknown parameter and the nearest known one."""
    if not request.scope["query_string"]:
        return
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        raise InvalidRequest(errors=[_error(name[:_LONGEST_NAME], known) for name in unknown[:_MOST_ERRORS]])


def _error(name: str, known: frozenset[str]) -> FieldError:
    pointer = "#/query/" + name.replace("~", "~0").replace("/", "~1")
    if not known:
        return FieldError(pointer, "is unknown: this operation takes no query parameters")
    near = [full for full in sorted(known) if full.startswith(name)] or get_close_matches(name, sorted(known), n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    return FieldError(pointer, f"is unknown: {guess}this operation takes {', '.join(sorted(known))}")

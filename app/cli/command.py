"""Turns plain functions into Typer commands: groups of options, a session, errors as exit codes.

A command's function takes a `Session`, the fields of any dataclass of options, and its own parameters. Typer sees one
flat list. Several commands can therefore share one group of options.

A start of the program uses one command of nearly ninety. Typer takes half a millisecond for the options of each, so they
are put together when the command is used: a quarter of the time of a short command (tests/cli/test_command.py).
"""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from app.cli.errors import FAILED, INTERRUPTED, OUTPUT_LOST, CliError
from app.cli.session import Connection, Session

Body = Callable[..., None]

_CONTEXT = "context"


@dataclass(frozen=True)
class _Group:
    """A parameter of the function that stands for several options: `kind` has one field for each."""

    name: str
    kind: type[Any]

    def take(self, values: dict[str, Any]) -> Any:
        """The group's value, its options removed from `values`."""
        return self.kind(**{field.name: values.pop(field.name) for field in fields(self.kind)})

    def parameters(self) -> Iterator[inspect.Parameter]:
        hints = get_type_hints(self.kind, include_extras=True)
        for field in fields(self.kind):
            yield _keyword(field.name, hints[field.name], _default(field))


def command(group: typer.Typer, name: str) -> Callable[[Body], Body]:
    """Adds the decorated function to `group` as the command `name`."""

    def register(body: Body) -> Body:
        group.command(name, help=inspect.getdoc(body), cls=_deferred(body))(_without_options)
        return body

    return register


class DeferredCommand(TyperCommand):
    """A command of which a list of commands knows name and help. `complete` has the options too."""

    body: Body

    @cached_property
    def complete(self) -> Any:
        """The command as Typer makes it of the function."""
        alone = typer.Typer(add_completion=False)
        alone.command(self.name, help=self.help)(_flat(self.body))
        return typer.main.get_command(alone)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Each use of a command begins here: a run, its help and its completion."""
        return self.complete.make_context(info_name, args, parent, **extra)


def _deferred(body: Body) -> type[DeferredCommand]:
    return type("DeferredCommand", (DeferredCommand,), {"body": staticmethod(body)})


def _without_options() -> None:
    """Stands for the function until the command is used."""


def before_commands(group: typer.Typer) -> Callable[[Body], Body]:
    """Runs the decorated function before every command of `group`, with the connection options."""

    def register(body: Body) -> Body:
        def run(**values: Any) -> None:
            values.pop(_CONTEXT).obj = _Group("", Connection).take(values)
            body(**values)

        _declare(run, _parameters(inspect.signature(body, eval_str=True).parameters.values(), ()))
        group.callback(help=inspect.getdoc(body))(run)
        return body

    return register


def connect(context: typer.Context) -> Connection:
    """The connection options before the command's name."""
    connection = context.find_object(Connection)
    return connection if connection is not None else Connection()


def _flat(body: Body) -> Callable[..., None]:
    own = list(inspect.signature(body, eval_str=True).parameters.values())
    groups = [_Group(p.name, p.annotation) for p in own if _is_options(p.annotation)]
    takes_session = next((p.name for p in own if p.annotation is Session), None)

    def run(**values: Any) -> None:
        before = connect(values.pop(_CONTEXT))
        connection = _Group("", Connection).take(values).over(before)
        chosen = {group.name: group.take(values) for group in groups}
        with Session(connection) as session:
            if takes_session:
                chosen[takes_session] = session
            _guarded(session, lambda: body(**values, **chosen))

    run.__name__ = body.__name__
    _declare(run, _parameters(own, groups))
    return run


def _guarded(session: Session, work: Callable[[], None]) -> None:
    """Runs the function. An expected error becomes a message and an exit code; a bug stays a traceback."""
    code = 0
    try:
        code = _exit_code(session, work)
        sys.stdout.flush()
    except (OSError, UnicodeEncodeError) as error:
        if not session.lost_output(error):
            raise
        _forget_output()
        code = code or OUTPUT_LOST
    raise typer.Exit(code)


def _exit_code(session: Session, work: Callable[[], None]) -> int:
    try:
        work()
    except CliError as error:
        session.report(error)
        return error.exit_code
    except KeyboardInterrupt:
        session.note("interrupted")
        return INTERRUPTED
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort as aborted:  # of a question, which does not tell Ctrl-C from the end of its input
        if isinstance(aborted.__context__, KeyboardInterrupt):
            session.note("\ninterrupted")
            return INTERRUPTED
        session.note("\nerror: the input ended before an answer")
        return FAILED
    return 0


def _forget_output() -> None:
    """Python writes what waits in its buffer at the end, and would report its own error about it."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _parameters(own: Iterable[inspect.Parameter], groups: Iterable[_Group]) -> Iterator[inspect.Parameter]:
    yield _keyword(_CONTEXT, typer.Context, inspect.Parameter.empty)
    grouped = {group.name: group for group in groups}
    for parameter in own:
        if parameter.name in grouped:
            yield from grouped[parameter.name].parameters()
        elif parameter.annotation is not Session:
            yield _keyword(parameter.name, parameter.annotation, parameter.default)
    yield from _Group("", Connection).parameters()


def _declare(function: Callable[..., None], parameters: Iterable[inspect.Parameter]) -> None:
    signature = inspect.Signature(list(parameters))
    function.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    function.__signature__ = signature  # pyrefly: ignore[missing-attribute]  # the documented way to tell inspect


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _default(field: "Field[Any]") -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _is_options(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)

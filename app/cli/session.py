"""The connection and the output that every command uses."""

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from app.cli.completion import profile_names
from app.cli.endpoint import Choice, Endpoint, clean_key, find_address, find_endpoint
from app.cli.errors import CliError, DeclinedError, Json, ProblemError
from app.cli.render import output, sheet
from app.cli.render.layout import FittedTable, Layout
from app.cli.render.problems import problem_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from app.cli.client import Api

_PANEL = "Connection and output"
_CHANGES = 50
"The last changes of a session that are named when the output is lost. A server for agents makes many."


@dataclass(frozen=True)
class Connection:
    """The options that every command accepts, before or after the command's name."""

    url: Annotated[
        str | None,
        typer.Option(
            "--url", help="Address of the API; else GPULEASE_URL, a profile, credentials.json.", rich_help_panel=_PANEL
        ),
    ] = None
    key: Annotated[
        str | None,
        typer.Option("--key", help="API key; else GPULEASE_KEY, a profile, credentials.json.", rich_help_panel=_PANEL),
    ] = None
    as_operator: Annotated[
        bool, typer.Option("--as-operator", help="Use the operator key of credentials.json.", rich_help_panel=_PANEL)
    ] = False
    as_json: Annotated[
        bool, typer.Option("--json", help="Short for --output json: the JSON of the API.", rich_help_panel=_PANEL)
    ] = False
    csv: Annotated[
        bool, typer.Option("--csv", help="Short for --output csv: a header and rows.", rich_help_panel=_PANEL)
    ] = False
    form: Annotated[output.Format | None, typer.Option("--output", help="Output format.", rich_help_panel=_PANEL)] = (
        None
    )
    wide: Annotated[
        bool,
        typer.Option("--wide", help="Show all columns and full ids, wider than the terminal.", rich_help_panel=_PANEL),
    ] = False
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            help="Profile of config.toml; else GPULEASE_PROFILE, else its default.",
            rich_help_panel=_PANEL,
            autocompletion=profile_names,
        ),
    ] = None

    @property
    def format(self) -> output.Format | None:
        """The requested output format. Raises BadParameter for two different ones."""
        asked: list[tuple[output.Format | None, str]] = [
            ("json" if self.as_json else None, "--json"),
            ("csv" if self.csv else None, "--csv"),
            (self.form, f"--output {self.form}"),
        ]
        requested = {form: option for form, option in asked if form is not None}
        if len(requested) > 1:
            raise typer.BadParameter(f"use {' or '.join(requested.values())}, not both")
        return next(iter(requested), None)

    def over(self, other: "Connection") -> "Connection":
        """These options, with missing values taken from `other`."""
        return Connection(
            self.url or other.url,
            self.key or other.key,
            self.as_operator or other.as_operator,
            form=self.format or other.format,
            wide=self.wide or other.wide,
            profile=self.profile if self.profile is not None else other.profile,
        )


class Session:
    """One run of one command. Closing it closes its connections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open = ExitStack()
        self._apis: dict[bool, Api] = {}
        self._changes: deque[str] = deque(maxlen=_CHANGES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def as_json(self) -> bool:
        """True when standard output is for a program: JSON only."""
        return self._connection.format == "json"

    @property
    def choice(self) -> Choice:
        """The connection options."""
        return Choice(self._connection.url, self._connection.key, self._connection.profile)

    def api(self, *, operator: bool = False) -> "Api":
        """The API with the tenant's key, or with the operator's key for operator calls."""
        from app.cli.client import Api  # noqa: PLC0415 - httpx takes half of the start-up: only for commands that call

        operator = operator or self._connection.as_operator
        if operator not in self._apis:
            endpoint = find_endpoint(
                self.choice,
                operator=operator,
                environ=os.environ,
                directory=Path.cwd(),
            )
            self._apis[operator] = self._open.enter_context(Api(endpoint, note=self.note, changed=self._changes.append))
        return self._apis[operator]

    def address(self) -> str:
        """The address of the API. It needs no key."""
        return find_address(self.choice, environ=os.environ, directory=Path.cwd())

    def with_key(self, key: str) -> "Api":
        """The API with another key. The caller closes it."""
        from app.cli.client import Api  # noqa: PLC0415 - as above

        return Api(Endpoint(self.address(), clean_key(key)), note=self.note)

    @property
    def as_csv(self) -> bool:
        """True when the output is CSV: header and rows only."""
        return self._connection.format == "csv"

    def refuse_csv(self, what: str) -> None:
        """Raises BadParameter if CSV is requested for `what`, which has no table. Call it before any request."""
        if self.as_csv:
            msg = f"{what} has no table: use --output json or leave --output csv away"
            raise typer.BadParameter(msg)

    def answer(
        self,
        document: Json,
        render: Callable[[Json], "RenderableType"],
        rows: Callable[[Json], sheet.Sheet] = sheet.one_row,
    ) -> None:
        """Prints the command's result on standard output: the document, its `rows`, or the result of `render`."""
        if self.as_json:
            output.write_json(document)
        elif self.as_csv:
            sheet.write(rows(document))
        else:
            self.console.print(render(document))

    def answer_fact(
        self,
        document: Json,
        fact: str,
        render: "Callable[[Json], RenderableType] | None",
        rows: Callable[[Json], sheet.Sheet],
    ) -> None:
        """Prints what a change has led to. People get the fact, and the document only with `render`."""
        if self.as_json or self.as_csv:
            self.answer(document, output.fields, rows)
            self.note(fact)
            return
        self.console.print(output.printable(fact), soft_wrap=True)
        if render is not None:
            self.console.print()
            self.console.print(render(document))

    def answer_secret(self, document: Json, noun: str) -> None:
        """Prints a document with a `secret`. For people the secret has a line of its own, to be copied whole."""
        rest = dict(document)
        secret = rest.pop("secret", None)
        if self.as_json or self.as_csv or not secret:
            self.answer(document, output.fields)
        else:
            self.console.print(output.fields(rest))
            self.console.print(f"\nsecret\n{secret}", soft_wrap=True)
        if secret:
            self.note(f"store the {noun} now: it is not shown again")

    def items(self, page: Json, columns: output.Columns, *, none: str, layout: Layout | None = None) -> None:
        """Prints a list as a table. An empty list prints the sentence `none` on standard error."""
        if self.as_json:
            output.write_json(page)
        elif self.as_csv:
            sheet.write(sheet.Sheet(columns, page["items"]))
        elif page["items"]:
            self.table(columns, page["items"], layout or Layout())
        if not self.as_json and not page["items"]:
            self.note(none)
        if not self.as_json and page.get("next_cursor"):
            self.note(f"{len(page['items'])} shown, and there are more: --limit 0 shows all")

    def table(self, columns: output.Columns, items: Sequence[Json], layout: Layout) -> None:
        """Prints the columns that fit, and names the others on standard error."""
        table = FittedTable(columns, items, layout)
        self.console.print(table)
        hidden = table.hidden(self.console.width)
        if hidden:
            self.note(f"hidden columns: {', '.join(hidden)} (--wide shows all)")

    @cached_property
    def console(self) -> "Console":
        """Standard output for people."""
        return output.console(wide=self._connection.wide)

    @property
    def interactive(self) -> bool:
        """True when a person can answer a question: both ends are a terminal, and the output is for people."""
        return sys.stdin.isatty() and sys.stdout.isatty() and not (self.as_json or self.as_csv)

    def confirm(self, question: str) -> None:
        """Asks on standard error. Raises DeclinedError unless the answer is yes."""
        if not typer.confirm(question, err=True):
            raise DeclinedError

    def note(self, message: str) -> None:
        """Prints a remark for the person at the terminal, on standard error."""
        sys.stderr.write(output.printable(message) + "\n")

    def lost_output(self, error: OSError | UnicodeEncodeError) -> bool:
        """Names what the command has changed, in one line on standard error. False for an error that is not the output's."""
        pipe = isinstance(error, BrokenPipeError)
        if not self._changes and (pipe or getattr(error, "filename", None) is not None):
            return False
        why = getattr(error, "strerror", None) or str(error)
        done = f"; carried out: {', '.join(self._changes)}" if self._changes else ""
        self.note(f"error: the output could not be written: {why}{done}")
        return True

    def report(self, error: CliError) -> None:
        """Reports why the command ends: on standard error, and as the problem document for programs."""
        first, *rest = problem_lines(error) if isinstance(error, ProblemError) else error.lines()
        for line in (f"error: {first}", *rest):
            self.note(line)
        if error.unanswered:
            self.note(f"  {error.unanswered.line()}")
        if self.as_json and isinstance(error, ProblemError):
            output.write_json(error.document)

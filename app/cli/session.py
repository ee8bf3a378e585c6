"""The connection and the output that every command uses."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

import typer

from app.cli import output, sheet
from app.cli.completion import profile_names
from app.cli.config import Choice, find_endpoint
from app.cli.errors import CliError, Json, ProblemError
from app.cli.layout import Layout, fitted_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from app.cli.client import Api

_PANEL = "Connection and output"


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
    form: Annotated[output.Format | None, typer.Option("--output", help="Output format.", rich_help_panel=_PANEL)] = (
        None
    )
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
        """The requested output format. Raises BadParameter for --json together with another format."""
        if self.as_json and self.form not in {None, "json"}:
            msg = f"use --json or --output {self.form}, not both"
            raise typer.BadParameter(msg)
        return "json" if self.as_json else self.form

    def over(self, other: "Connection") -> "Connection":
        """These options, with missing values taken from `other`."""
        return Connection(
            self.url or other.url,
            self.key or other.key,
            self.as_operator or other.as_operator,
            form=self.format or other.format,
            profile=self.profile if self.profile is not None else other.profile,
        )


class Session:
    """One run of one command. Closing it closes its connections."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open = ExitStack()
        self._apis: dict[bool, Api] = {}

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
            self._apis[operator] = self._open.enter_context(Api(endpoint, note=self.note))
        return self._apis[operator]

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
            output.console().print(render(document))

    def items(self, page: Json, columns: output.Columns, *, none: str, layout: Layout | None = None) -> None:
        """Prints a list as a table. An empty list prints the sentence `none` on standard error."""
        if self.as_json:
            output.write_json(page)
        elif self.as_csv:
            sheet.write(sheet.Sheet(columns, page["items"]))
        elif page["items"]:
            self._print_table(columns, page["items"], layout)
        if not self.as_json and not page["items"]:
            self.note(none)
        if not self.as_json and page.get("next_cursor"):
            self.note(f"only the first {len(page['items'])}: --limit 0 shows all")

    def _print_table(self, columns: output.Columns, items: Sequence[Json], layout: Layout | None) -> None:
        console = output.console()
        table, hidden = fitted_table(columns, items, layout, console.width)
        console.print(table)
        if hidden:
            self.note(f"too narrow for {', '.join(hidden)}: a wider terminal or --output csv shows all columns")

    def note(self, message: str) -> None:
        """Prints a remark for the person at the terminal, on standard error."""
        sys.stderr.write(output.printable(message) + "\n")

    def report(self, error: CliError) -> None:
        """Reports why the command ends: on standard error, and as the problem document for programs."""
        first, *rest = error.lines()
        for line in (f"error: {first}", *rest):
            self.note(line)
        if self.as_json and isinstance(error, ProblemError):
            output.write_json(error.document)

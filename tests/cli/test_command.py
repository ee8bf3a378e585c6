"""A start puts together the options of the command that is used, and of no other."""

from typing import Any

import typer

from app.cli.command import DeferredCommand
from app.cli.main import app


def test_a_command_has_its_options_when_it_is_used() -> None:
    client: Any = typer.main.get_command(app)
    create = client.commands["lease"].commands["create"]
    assert isinstance(create, DeferredCommand)
    assert create.params == []
    assert "complete" not in vars(create)

    context = create.make_context("create", ["--gpu", "A100", "--json"])
    assert (context.params["gpu"], context.params["as_json"]) == ("A100", True)
    assert (context.command.name, context.command.help) == (create.name, create.help)

"""The `gpulease` command with all its groups."""

import gc
import os
import sys
from typing import Annotated

import typer

from app.cli import keys, ops, tenants, volumes, webhooks
from app.cli.command import before_commands, command
from app.cli.gpus import models as gpu_models
from app.cli.gpus import top as gpu_top
from app.cli.groups import groups
from app.cli.leases import events, leases, offerings, quotes, release, sizes, top
from app.cli.leases import metrics as lease_metrics
from app.cli.mcp.command import mcp
from app.cli.money import budgets, costs, quotas, reconciliation, reservations
from app.cli.profiles import commands as profile_commands
from app.cli.render import output
from app.cli.session import Session
from app.cli.ssh import config as ssh_config
from app.cli.ssh import keys as ssh_keys
from app.cli.ssh import ssh as login
from app.cli.up import deadman, up

_COLLECT_AFTER = 50_000
"""New objects before the garbage collector looks at them. Python's own value is 700."""
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def main() -> None:
    """Runs the command line and exits the process with its exit code."""
    # building the commands leaves no garbage: looking for it takes a sixth of a short command
    gc.set_threshold(_COLLECT_AFTER)
    _replace_closed_streams()
    app(prog_name="gpulease")


def _replace_closed_streams() -> None:
    """A closed descriptor would be given to the next connection. Output then fails as on a full disk; messages are dropped."""
    for descriptor, name, mode in ((1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, mode)
            if opened != descriptor:
                os.dup2(opened, descriptor)
                os.close(opened)
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", closefd=False))  # noqa: SIM115 - until the process ends


app = typer.Typer(
    no_args_is_help=True,
    help="Lease GPUs at AWS, GCP and Azure.",
    pretty_exceptions_enable=False,  # a bug shows Python's own traceback: never local variables, which hold keys
)


def _version(requested: bool) -> None:  # noqa: FBT001 - Typer's way to call it
    if requested:
        from importlib.metadata import version  # noqa: PLC0415 - slow to import and asked for once

        typer.echo(f"gpulease {version('gpulease')}")
        raise typer.Exit


@before_commands(app)
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Lease GPUs at AWS, GCP and Azure.

    Address and key come from the options, GPULEASE_URL and GPULEASE_KEY, a profile, or .gpulease/credentials.json. Exit
    codes: 1 rejected or failed, 2 wrong usage, 3 API unreachable, 4 output not written, 130 interrupted.
    """
    del version


@command(app, "me")
def me(session: Session) -> None:
    """Show the current key, its role and its tenant."""
    session.answer(session.api().get("/v1/me"), output.fields)


app.command("up", context_settings=_PASS_ON, add_help_option=False)(up)
app.command("deadman", context_settings=_PASS_ON, add_help_option=False)(deadman)
command(app, "create")(leases.create)
command(app, "ls")(leases.list_leases)
command(app, "show")(leases.show)
command(app, "release")(release.release)
command(app, "extend")(leases.extend)
command(app, "offerings")(offerings.offerings)
command(app, "gpus")(gpu_models.gpus)
command(app, "top")(gpu_top.top)
command(app, "regions")(gpu_models.regions)
command(app, "images")(offerings.images)
command(app, "reservations")(reservations.reservations)
command(app, "ssh")(login.ssh)
command(app, "attach")(login.attach)
command(app, "cp")(login.cp)
command(app, "ssh-config")(ssh_config.ssh_config)
app.add_typer(ssh_keys.group, name="ssh-keys")
command(app, "mcp")(mcp)
command(app, "audit")(events.audit)
command(app, "quote")(quotes.quote)
command(app, "size")(sizes.size)
command(app, "costs")(costs.costs)
command(app, "forecast")(costs.forecast)
command(app, "focus")(costs.focus)
command(leases.group, "release")(release.release)
command(leases.group, "logs")(login.logs)
command(leases.group, "metrics")(lease_metrics.metrics)
app.add_typer(leases.group, name="lease")
app.add_typer(groups.group, name="group")
app.add_typer(volumes.group, name="volume")
app.add_typer(tenants.group, name="tenant")
app.add_typer(keys.group, name="key")
app.add_typer(quotas.group, name="quota")
app.add_typer(budgets.group, name="budget")
command(ops.group, "reconciliation")(reconciliation.reconciliation)
command(ops.group, "top")(top.top)
app.add_typer(ops.group, name="ops")
app.add_typer(events.group, name="events")
app.add_typer(webhooks.group, name="webhooks")
app.add_typer(profile_commands.group, name="profile")

if __name__ == "__main__":
    main()

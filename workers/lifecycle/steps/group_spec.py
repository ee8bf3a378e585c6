"""What a launch says about the group of its lease."""

from typing import Any

from app.domain.tokens import agent_token
from workers.lifecycle.steps.context import StepContext
from workers.providers.common.group_keys import group_key
from workers.providers.common.group_node import HOSTS_PATH
from workers.providers.types import GroupSpec


def group_spec(ctx: StepContext, known: Any, n: int) -> GroupSpec | None:
    """None for a lease of its own. `known`: a row of `launches.private`. `n`: of the attempt.

    VMs ask for the other members with the token of their agent, so they ask only where VMs run agents.
    """
    if known.group_id is None:
        return None
    settings, installation = ctx.runtime.settings, ctx.runtime.installation
    asks = settings.public_url is not None and settings.agent == "on"
    return GroupSpec(
        group_id=known.group_id,
        placement=known.placement,
        interconnect=known.interconnect,
        hosts_url=f"{settings.public_url}{HOSTS_PATH}" if asks else None,
        token=agent_token(installation.token_key, installation.id, ctx.lease.id, n),
        ssh_private_key=group_key(installation.token_key, installation.id, known.group_id) if asks else None,
    )

"""Agents in leased VMs. Each writes to its own attempt alone, with a token that works until the attempt ends."""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from app.db.leases import agents as statements
from app.domain.ids import AttemptId, LeaseId, TenantId
from app.domain.lease_requests import ProofMode
from app.domain.leases import LeaseState
from app.domain.tokens import agent_hash
from app.services.context import ServiceContext

_TOKEN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """The attempt and lease of an agent. `offering`: the facts stored with the attempt. `now`: the database's clock.

    `proof` and `gpu_health` are the lease's columns. `own_image`: the tenant chose the image.
    """

    attempt_id: AttemptId
    lease_id: LeaseId
    tenant_id: TenantId
    n: int
    state: LeaseState
    should_run: bool
    provider: str
    region: str
    offering: Mapping[str, Any]
    own_image: bool
    proof_wish: ProofMode
    ready_at: datetime | None
    proof: dict[str, Any] | None
    gpu_health: dict[str, Any] | None
    now: datetime


class AgentService:
    """Finds the agent of a token."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def find(self, token: str) -> Agent | None:
        """The agent with this token; None: unknown, or its attempt has ended. Text that cannot be a token costs no query."""
        if _TOKEN.fullmatch(token) is None:
            return None
        presented = agent_hash(token)
        rows = await self._database.fetch(None, statements.OWNER, agent_hash=presented)
        row = next((candidate for candidate in rows if hmac.compare_digest(candidate["agent_hash"], presented)), None)
        return None if row is None else _agent(row)


def _agent(row: Mapping[str, Any]) -> Agent:
    return Agent(
        attempt_id=AttemptId(row["attempt_id"]),
        lease_id=LeaseId(row["lease_id"]),
        tenant_id=TenantId(row["tenant_id"]),
        n=row["n"],
        state=LeaseState(row["state"]),
        should_run=row["desired"] == "run",
        provider=row["provider"],
        region=row["region"],
        offering=_parsed(row["offering"]) or {},
        own_image=row["image"] is not None,
        proof_wish=ProofMode(row["proof_wish"] or ProofMode.AUTO),
        ready_at=row["ready_at"],
        proof=_parsed(row["proof"]),
        gpu_health=_parsed(row["gpu_health"]),
        now=row["now"],
    )


def _parsed(value: str | dict[str, Any] | None) -> dict[str, Any] | None:
    """JSON of a compiled query. Connections of the pool parse it, and plain ones of the driver return its text."""
    return dict(orjson.loads(value)) if isinstance(value, str) else value

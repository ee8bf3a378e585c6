"""Who may raise which costs: a key with a budget raises only what its budget counts."""

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.tenancy import budgets
from app.services.errors import KeyHasBudget
from app.services.principal import Principal


async def check_cost_owner(connection: AsyncConnection, principal: Principal, owner_key_id: str | None) -> None:
    """Call it before a change that can raise the cost of a lease or group. `owner_key_id`: the key that created it.

    Raises KeyHasBudget when the caller's key has a budget and is another one. None: an unknown key.
    """
    if principal.key_id != owner_key_id:
        what = "the cost of this change counts for another key"
        await _refuse_budget(connection, principal, what)


async def check_limits_of_keys(connection: AsyncConnection, principal: Principal, key_id: str | None = None) -> None:
    """Call it before a change with which a key could spend more than its budget: of budgets, and of other keys.

    `key_id`: the key that changes. Raises KeyHasBudget.
    """
    if principal.key_id != key_id:
        await _refuse_budget(connection, principal, "it changes no budgets and no other keys")


async def _refuse_budget(connection: AsyncConnection, principal: Principal, why: str) -> None:
    """A budget that only notifies limits nothing. Operators have no budgets."""
    if principal.tenant_id is None:
        return
    if (await connection.execute(budgets.limiting(principal.tenant_id, principal.key_id))).first() is not None:
        raise KeyHasBudget(f"The key {principal.key_id} has a budget, and {why}.")

"""The accounts file `gpulease.toml`: which cloud accounts are used, never any secret."""

import tomllib
from functools import cache, reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from app.settings.errors import StartupError
from app.settings.providers import AccountSettings, providers


@cache
def _adapter() -> TypeAdapter[AccountSettings]:
    """Reads an account as its provider's class."""
    classes: Any = reduce(or_, (info.account for info in providers().values()))
    return TypeAdapter(Annotated[classes, Field(discriminator="provider")])


def load_accounts(path: Path | None) -> dict[str, AccountSettings]:
    """Accounts by name. No path means none. Raises StartupError naming file, account and field."""
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        msg = f"cannot read {path} (GPULEASE_CONFIG): {error.strerror}"
        raise StartupError(msg) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        msg = f"{path} is not valid TOML: {error}"
        raise StartupError(msg) from None
    unknown = sorted(set(document) - {"accounts"})
    if unknown:
        msg = f"{path}: unknown section {unknown[0]!r}, expected [[accounts]]"
        raise StartupError(msg)
    return _by_name(path, document.get("accounts", []))


def account_from_json(value: dict[str, Any]) -> AccountSettings:
    """The settings of an account as the database stores them."""
    return _adapter().validate_python(value)


def _by_name(path: Path, entries: Any) -> dict[str, AccountSettings]:
    if not isinstance(entries, list):
        msg = f"{path}: accounts must be written as [[accounts]]"
        raise StartupError(msg)
    accounts: dict[str, AccountSettings] = {}
    for number, entry in enumerate(entries, start=1):
        account = _parse(path, number, entry)
        if account.name in accounts:
            msg = f"{path}: two accounts are named {account.name!r}"
            raise StartupError(msg)
        accounts[account.name] = account
    return accounts


def _parse(path: Path, number: int, entry: Any) -> AccountSettings:
    try:
        return _adapter().validate_python(entry)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in providers())
        if first["type"] == "value_error":
            text = str(first["ctx"]["error"])
            msg = f"{path}: account {number}: {where}: {text}" if where else f"{path}: account {number}: {text}"
        else:
            msg = f"{path}: account {number}: {where or 'accounts'}: {first['msg']}"
        raise StartupError(msg) from None

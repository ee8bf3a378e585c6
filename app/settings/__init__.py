"""Settings of every process: environment variables `GPULEASE_*` and the accounts file, read once, frozen."""

from app.settings.accounts import load_accounts
from app.settings.errors import StartupError
from app.settings.providers import AccountSettings
from app.settings.settings import Settings, load_settings

__all__ = ["AccountSettings", "Settings", "StartupError", "load_accounts", "load_settings"]

"""Images by the names that operators give them, and what an image's own words tell of its driver."""

import re

from app.settings import AccountSettings
from workers.providers.errors import ImageMissing

_DRIVER = re.compile(r"nvidia(?:[-_ ](?:driver|open|server))*[-_ ]v?(\d{3}(?:\.\d{1,3})*)\b", re.IGNORECASE)


def wanted(account: AccountSettings, name: str | None) -> str | None:
    """What the account's settings say of an image: of the one named so, or of its default. None: the newest public one.

    Raises ImageMissing for a name that the account does not have (any more).
    """
    if name is None:
        return account.image
    if name not in account.images:
        raise ImageMissing(f"account {account.name} has no image named {name}", code="UnknownImage")
    return account.images[name]


def driver_version(*texts: str | None) -> str | None:
    """The first version of NVIDIA's driver that names and descriptions tell, such as 580 or 580.95.05."""
    found = (_DRIVER.search(text) for text in texts if text)
    return next((match[1] for match in found if match is not None), None)

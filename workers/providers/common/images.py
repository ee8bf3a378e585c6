"""Images by the names that operators configure, and the driver version in an image's name or description."""

import re

from app.domain.offerings import Driver
from app.settings import AccountSettings
from workers.providers.errors import ImageMissing

_DRIVER = re.compile(r"nvidia(?:[-_ ](?:driver|open|server))*[-_ ]v?(\d{3}(?:\.\d{1,3})*)\b", re.IGNORECASE)


def configured_image(account: AccountSettings, name: str | None, driver: Driver = Driver.NVIDIA) -> str | None:
    """The account's setting for the image `name`; without a name, for its default image with `driver`.

    `image` of an account has NVIDIA's driver for data centres. `driver_images` names images with the other drivers.
    Returns None for the newest public image. Raises ImageMissing for a name that the account lacks or no longer has.
    """
    if name is None:
        return account.image if driver is Driver.NVIDIA else account.driver_images.get(driver)
    if name not in account.images:
        raise ImageMissing(f"account {account.name} has no image named {name}", code="UnknownImage")
    return account.images[name]


def no_image(account: str, driver: Driver) -> ImageMissing:
    """The error for a driver that no public image of the cloud has and for which the account names none."""
    return ImageMissing(
        f"account {account} names no image with the driver {driver}: set driver_images.{driver}", code="NoDriverImage"
    )


def driver_version(*texts: str | None) -> str | None:
    """The first NVIDIA driver version in names and descriptions, such as 580 or 580.95.05; None if there is none."""
    matches = (_DRIVER.search(text) for text in texts if text)
    return next((match[1] for match in matches if match is not None), None)

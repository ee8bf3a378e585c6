"""Bodies and views about named images."""

from app.api.schemas.base import View


class ImageAccount(View):
    """An account that offers the image."""

    provider: str
    account: str


class NamedImage(View):
    """An image of the operators' list. Each account maps the name to its own image."""

    name: str
    accounts: list[ImageAccount]


class NamedImagePage(View):
    """All images, sorted by name."""

    items: list[NamedImage]
    next_cursor: str | None

"""Bodies and views about regions."""

from typing import Annotated

from pydantic import Field

from app.api.schemas.base import View


class Region(View):
    """A region of a provider in which leases can run."""

    provider: str
    region: str
    accounts: Annotated[list[str], Field(description="The operators' accounts that use the region.")]
    gpu_models: Annotated[
        list[str], Field(description="Models with an offering there. Empty until gpulease has read the catalogue.")
    ]


class RegionPage(View):
    """All regions, sorted by provider and name."""

    items: list[Region]
    next_cursor: str | None

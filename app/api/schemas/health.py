"""Bodies and views about the health of the process."""

from app.api.schemas.base import View


class Liveness(View):
    """The process responds."""

    status: str


class ReadinessView(View):
    """`ready` is false, with status 503, when the process cannot serve requests. `warnings` lists other problems."""

    ready: bool
    checks: dict[str, str]
    warnings: list[str]

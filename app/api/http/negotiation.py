"""What the client takes: the headers `Accept` and `Accept-Encoding` with their weights (RFC 9110, 12.4 and 12.5)."""

from fastapi import Request

from app.api.http.responses import JSON

CSV = "text/csv"
_REFUSED = 0.0


def accepts_gzip(request: Request) -> bool:
    """Whether the answer may be compressed with gzip. Without the header it may not."""
    weights = _weights(request, "accept-encoding")
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", _REFUSED))) > _REFUSED


def prefers_csv(request: Request) -> bool:
    """Whether the client weighs CSV more than JSON and than `*/*`. Of equal weights, the first one counts."""
    weights = _weights(request, "accept")
    known = [name for name in weights if name in {CSV, JSON, "*/*"} and weights[name] > _REFUSED]
    return max(known, key=lambda name: weights[name], default=JSON) == CSV


def _weights(request: Request, header: str) -> dict[str, float]:
    """By name in lower case, in the client's order."""
    weights: dict[str, float] = {}
    for part in ",".join(request.headers.getlist(header)).split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if name:
            weights[name] = _weight(parameters)
    return weights


def _weight(parameters: list[str]) -> float:
    """A weight that is no number refuses: what the client meant is unknown."""
    values = [text.removeprefix("q=").strip() for text in parameters if text.startswith("q=")]
    try:
        return float(values[0]) if values else 1.0
    except ValueError:
        return _REFUSED

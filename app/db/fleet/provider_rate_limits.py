"""Rate buckets of providers, shared by all workers: GCRA in one row each, by the database's clock."""

from datetime import timedelta

from sqlalchemy import Executable, text

from app.db.core.prepared import Bound

# A minute after the last throttling, each use brings the old rate back by half.
_RECOVERED = """(CASE WHEN b.throttled_at < now() - interval '60 seconds' THEN greatest(1, b.slow_factor / 2)
                      ELSE b.slow_factor END)"""

# What is reserved shrinks with the factor. At a slower rate the same calls had reserved more time.
_RESERVED = f"greatest(interval '0', b.next_free - now()) * ({_RECOVERED} / b.slow_factor)"

_RESERVE = text(
    f"""
    INSERT INTO provider_bucket AS b (name, next_free) VALUES (:name, now() + :cost * :interval)
    ON CONFLICT (name) DO UPDATE
        SET next_free = now() + {_RESERVED} + :cost * :interval * {_RECOVERED}, slow_factor = {_RECOVERED}
    RETURNING greatest(0, extract(epoch FROM next_free - now() - :burst * :interval * slow_factor)) AS wait_seconds,
              greatest(now(), next_free - :burst * :interval * slow_factor) AS slot_at
    """
)

_TAKE = text(
    f"""
    INSERT INTO provider_bucket AS b (name, next_free) VALUES (:name, now() + :interval)
    ON CONFLICT (name) DO UPDATE
        SET next_free = now() + {_RESERVED} + :interval * {_RECOVERED}, slow_factor = {_RECOVERED}
        WHERE {_RESERVED} + :interval * {_RECOVERED} <= :burst * :interval * {_RECOVERED}
    RETURNING name
    """
)

_SLOW_DOWN = text(
    """
    INSERT INTO provider_bucket AS b (name, next_free, slow_factor, throttled_at)
    VALUES (:name, now() + :burst * :interval * 2 + :pause * interval '1 second', 2, now())
    ON CONFLICT (name) DO UPDATE
        SET next_free = greatest(b.next_free, now() + :burst * :interval * least(16, b.slow_factor * 2))
                        + :pause * interval '1 second',
            slow_factor = least(16, b.slow_factor * 2),
            throttled_at = now()
        WHERE b.throttled_at IS NULL OR b.throttled_at < now() - interval '1 second'
    """
)


def reserve(name: str, *, burst: float, per_second: float, cost: float = 1.0) -> Bound[Executable]:
    """Reserves a slot, in order of asking: one row (wait_seconds, slot_at). The call may be made from `slot_at` on."""
    return Bound(_RESERVE, {"name": name, "cost": cost, "burst": burst, "interval": timedelta(seconds=1 / per_second)})


def take(name: str, *, burst: float, per_second: float) -> Bound[Executable]:
    """Takes one token if there is one now: a row, or none."""
    return Bound(_TAKE, {"name": name, "burst": burst, "interval": timedelta(seconds=1 / per_second)})


def slow_down(name: str, *, burst: float, per_second: float, pause: float) -> Bound[Executable]:
    """The provider throttled us: nobody calls for `pause` seconds and then at half the rate, for a minute or more."""
    return Bound(
        _SLOW_DOWN, {"name": name, "burst": burst, "interval": timedelta(seconds=1 / per_second), "pause": pause}
    )

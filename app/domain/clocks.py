"""Whether a host's clock shows the same time as the database's, which decides what is due."""

_TOLERATED_SECONDS = 5.0


def clock_problem(host: float, database: float) -> str | None:
    """None if both clocks show about the same time. They are in seconds since 1970."""
    ahead = host - database
    if abs(ahead) <= _TOLERATED_SECONDS:
        return None
    return f"the host's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the database's"

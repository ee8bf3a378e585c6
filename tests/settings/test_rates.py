"""A rate that cannot be read stops the start, by the name of its setting."""

import pytest

from app.settings import StartupError, load_settings


@pytest.mark.parametrize("name", ["rate_limit", "write_rate_limit", "login_rate_limit"])
def test_a_malformed_rate_stops_the_start(name: str) -> None:
    with pytest.raises(StartupError, match=f"GPULEASE_{name.upper()}.*such as 600/minute"):
        load_settings(**{name: "many"})

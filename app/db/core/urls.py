"""Database URLs: people write postgresql://, the two sides need their own driver's name in it."""

from sqlalchemy import URL, make_url


def async_url(url: str) -> URL:
    """For the API: asyncpg."""
    return make_url(url).set(drivername="postgresql+asyncpg")


def sync_url(url: str) -> URL:
    """For workers and migrations: psycopg."""
    return make_url(url).set(drivername="postgresql+psycopg")


def login_url(url: str, name: str, password: str) -> str:
    """The same database with another login."""
    return make_url(url).set(username=name, password=password).render_as_string(hide_password=False)

"""Alembic migrations, Postgres only."""

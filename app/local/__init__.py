"""The local stack: the whole service on one machine, without Docker and without an account anywhere.

`python -m app.local` runs it. The helpers for PostgreSQL and Redis are shared with the tests.
"""

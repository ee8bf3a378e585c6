"""`python -m app.cli` is the same program as `gpulease`."""

from app.cli.main import main

main()

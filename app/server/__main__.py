"""`python -m app.server …` is `gpulease-server …`."""

from app.server.main import main

if __name__ == "__main__":
    main()

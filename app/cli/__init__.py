"""The `gpulease` command line: an ordinary client of the HTTP API that imports nothing of the server."""

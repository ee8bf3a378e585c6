"""The `gpulease` command line. It is an ordinary client of the HTTP API and imports nothing of the server."""

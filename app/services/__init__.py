"""Use cases behind the API. Each opens and commits its own transaction; none knows HTTP."""

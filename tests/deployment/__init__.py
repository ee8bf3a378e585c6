"""The service on real servers, as its documentation says: `python -m tests.deployment`."""

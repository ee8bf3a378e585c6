"""Which answers are repeated: one table for the command line, the MCP server and both client libraries.

`make clients` writes the table into the libraries. Everything else is one rule for all of them:

- A request whose repetition has no further effect is repeated after no answer, after half an answer, and after `UNKNOWN`.
- Every request is repeated after `REFUSED`, and after a connection that failed before anything was sent.
- The repetition has the idempotency key and the body of the first request.
- A success that is not the API's JSON, such as a page of HTML, is not repeated. It is an error.
- A DELETE that an earlier try may have carried out, and that now finds nothing, is done.
"""

METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"A repetition has no further effect. That is also true of a request with an idempotency key."
REFUSED = frozenset({429})
"The API or a proxy refused the request before it had an effect."
UNKNOWN = frozenset({500, 502, 503, 504})
"The request may have been carried out, with or without a problem document in the answer."
IN_FLIGHT = "idempotency_in_flight"
"Code of a 409: the first request with this key is being carried out."
GONE = 404
KEPT = frozenset({"groups", "keys", "leases", "volumes"})
"Collections whose DELETE ends a resource and keeps it. GONE is the answer to each try there."


def is_done(method: str, path: str, status: int) -> bool:
    """Whether a problem with this status says that an earlier try of the request has succeeded."""
    collection = path.rpartition("/v1/")[2].partition("/")[0]
    return method == "DELETE" and status == GONE and collection not in KEPT

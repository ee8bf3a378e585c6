"""The endpoints, one module per noun. Each parses the request, calls a service and renders the response."""

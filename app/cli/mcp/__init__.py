"""`gpulease mcp`: the API as tools for agents, by the Model Context Protocol. A client of the HTTP API, nothing more."""

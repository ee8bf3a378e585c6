"""What every statement stands on: engine, connections, prepared statements, tenant scope, column types, URLs, ids."""

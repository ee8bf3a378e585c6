"""Who may do what, and how much: tenants, keys, quotas, audit, idempotency."""

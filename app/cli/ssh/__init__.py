"""SSH to a lease, and the keys for it."""

"""Whether an account has what leases need."""

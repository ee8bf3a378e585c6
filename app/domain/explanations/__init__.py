"""Why a lease is where it is, and what would place it."""

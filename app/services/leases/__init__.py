"""What a caller can do with leases."""

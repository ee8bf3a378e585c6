"""Commands about leases."""

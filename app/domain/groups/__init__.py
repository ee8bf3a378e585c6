"""Groups of leases: members, formation, steps and events."""

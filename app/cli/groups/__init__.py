"""Commands about groups."""

"""What a caller can do with groups."""

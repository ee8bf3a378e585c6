"""Compares the clouds with the database: inventory, watch, leftovers, adoption, provider events."""

"""Offerings, plans, quotes and regions."""

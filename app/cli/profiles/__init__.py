"""Profiles: one for each installation."""

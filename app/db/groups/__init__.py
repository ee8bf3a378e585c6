"""Statements of groups of leases."""

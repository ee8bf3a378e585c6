"""Imports the invoices of providers, and compares them with what leases cost."""

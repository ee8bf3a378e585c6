"""Leases and their attempts: claims, transitions, what the API shows and lists."""

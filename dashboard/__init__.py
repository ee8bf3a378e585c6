"""The operators' and tenants' dashboard: static files, served by the API below /dashboard."""

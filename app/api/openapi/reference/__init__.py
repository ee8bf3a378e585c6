"""The interactive reference at `/docs`: a page, its start script and style, and Swagger UI in `vendor`."""

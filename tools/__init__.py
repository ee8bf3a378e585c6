"""What makes the generated clients and the documentation site. Not part of the service."""

"""The HTTP side of gpulease and what both sides share: rules (domain), statements (db), settings."""

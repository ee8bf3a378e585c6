"""What the clouds offer and hold: accounts, offerings, listings, orphans, jobs, request rates."""

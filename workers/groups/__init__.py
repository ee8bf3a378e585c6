"""Groups of leases: choosing a pool, forming there, and what follows the loss of a member."""

"""What GPUs are, what agents report about them, and what follows."""

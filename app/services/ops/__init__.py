"""What an operator sees and changes."""

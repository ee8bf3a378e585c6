"""Tables and statement builders: the only SQL in the program. Both sides execute the same statements."""

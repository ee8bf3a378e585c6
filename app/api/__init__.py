"""HTTP: parse, one service call, present."""

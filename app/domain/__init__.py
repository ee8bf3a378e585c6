"""Pure rules: standard library only; no clock, no randomness, no logging. Time and tokens are arguments."""

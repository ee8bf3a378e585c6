"""Statements about GPUs: samples of agents, their series and sums."""

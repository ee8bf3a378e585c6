"""Periodic jobs: their schedule, their runner, and those that belong to no other room."""

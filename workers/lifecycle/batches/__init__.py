"""Launches that one provider call makes together."""

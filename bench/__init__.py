"""Repeatable measurements: `python -m bench.<name> --help`, or `make bench` for the short set.

Each figure is one JSON line with its baseline, measured in the same run on the same machine. Nothing here is a test.
"""

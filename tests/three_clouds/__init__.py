"""Tests of the whole stack over three clouds."""

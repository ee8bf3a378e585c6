"""`/_sim`: ground truth, and everything that a real cloud or a stranger would do by itself."""

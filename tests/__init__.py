"""The tests; below this folder the tree mirrors the program's."""

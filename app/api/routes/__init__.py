"""The endpoints, a module per noun: parse, one service call, render."""

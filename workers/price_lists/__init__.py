"""Price lists: comparing and writing them."""

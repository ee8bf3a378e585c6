"""Events, and the webhooks that carry them."""

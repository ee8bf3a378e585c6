"""Commands about costs, budgets and quotas."""

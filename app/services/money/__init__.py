"""Usage, costs, budgets and reconciliation."""

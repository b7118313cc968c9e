"""Check: comparisons to findings. Rules and budgets."""

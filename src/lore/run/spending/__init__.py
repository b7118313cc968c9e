"""What recordings cost: ledgers, their sums, tables of them."""

"""Values only: what the other rooms hand to one another."""

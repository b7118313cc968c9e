"""Which earlier turn each turn is compared with: in its own chain, and in other chains of the recording."""

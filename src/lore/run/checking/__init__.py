"""Judge files, here and elsewhere: `lore check`, and what shares its loop."""

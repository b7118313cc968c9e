"""`python -m lore`."""

from lore.commands.main import main

raise SystemExit(main())

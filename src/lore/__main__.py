"""`python -m lore`."""

from lore.cli.main import main

raise SystemExit(main())

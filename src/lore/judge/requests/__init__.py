"""What one request body shows: its laws, its lint, and what a cache would keep of it."""

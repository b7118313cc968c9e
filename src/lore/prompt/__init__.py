"""Prompts: session state to prompt, and prompt to and from request body."""

"""Plain chats: messages and nothing else."""

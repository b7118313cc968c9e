"""Chats of Gemini CLI and of Qwen Code, which is made from it."""

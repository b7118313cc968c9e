"""Cache rules: what a provider's prompt cache still holds."""

"""The pages of `lore memory page`: what is remembered, as HTML."""

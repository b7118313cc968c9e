"""What `lore memory` does: look at what is remembered, take it away, extract and dream by hand."""

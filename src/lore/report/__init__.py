"""Reports: results to text, JSON, and other forms. They say; they do not judge."""

"""Pages that a browser shows: `--report html`. Values and drawings in Python, their markup in `templates/`.

Rules: a page is one file that asks for nothing else and sends nothing; what a recording says is text, made visible
(`report.plain`) and escaped wherever it stands, and a content policy in the page lets no other style or script run than
its own two; it works without JavaScript but for zoom and sorting, and each plot has a table.
"""

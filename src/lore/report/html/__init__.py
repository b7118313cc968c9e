"""Pages for a browser: `--report html`. `answers` and `timeline` collect plain values, `page.html` has all markup.

A page is one file that loads and sends nothing. Without JavaScript it lacks only filters and sorting.
"""

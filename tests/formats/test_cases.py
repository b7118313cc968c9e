"""Logs of single cases, named after the behaviour that they show, and the rows of their readers (`golden.reading`)."""

from golden import digests
from helpers.each import each


@each(digests.reader_cases())
def test_reader_returns_rows_of_case(case):
    expected = digests.rows_file_of_case(case)
    assert expected.exists(), "no expected rows yet: run `make golden`"
    assert digests.rows_of_case(case).decode() == expected.read_text("utf-8"), "read the difference, then `make golden`"

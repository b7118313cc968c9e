"""Short forms of ids, and texts that are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lore.model.inserts import LONGEST_ID, shorten_ids

ids = st.lists(
    st.one_of(st.text("ab", max_size=9), st.text("ab", min_size=60, max_size=70), st.text(max_size=8)), max_size=8
)


@pytest.mark.parametrize(("name", "names", "form"), [
    ("abcdefgh", (), "abcde"),
    ("abcdefgh", ("abcdefgz",), "abcdefgh"),
    ("abcdefgh", ("abcdezzz",), "abcdef"),
    ("abc", ("abd",), "abc"),
    ("abcdefgh", ("abcdefgh", "abcdefgh"), "abcde"),
])  # fmt: skip
def test_short_form_is_the_shortest_unique_prefix(name, names, form):
    assert shorten_ids([name, *names], {})[name] == form


def test_later_id_gets_a_longer_form():
    shown = shorten_ids(["019eb111"], {})
    later = shorten_ids(["019eb222", "019eb111"], shown)
    assert later == {"019eb111": "019eb", "019eb222": "019eb2"}


@given(st.lists(ids, max_size=4))
def test_short_forms_never_change_and_differ(batches):
    shown = {}
    for batch in batches:
        before, shown = shown, shorten_ids(batch, shown)
        assert before.items() <= shown.items()
        assert shown.keys() == {*before, *batch}
        assert len({*shown.values()}) == len(shown)
        assert all(len(form) <= LONGEST_ID for form in shown.values())


@given(ids, st.randoms())
def test_order_of_ids_does_not_matter(batch, random):
    other = list(batch)
    random.shuffle(other)
    assert shorten_ids(other, {}) == shorten_ids(batch, {})


def test_id_with_credential_is_shown_as_digest():
    """Its beginning is no credential that a report can recognise, and still a part of one."""
    key, other = ("sk-ant-api03-" + letter * 93 + "AA" for letter in "Qq")
    forms = shorten_ids([key, other, "release-1"], {})
    assert forms["release-1"] == "relea"
    assert all(len(form) == 9 and form[0] == "…" for name, form in forms.items() if name != "release-1")
    assert len(set(forms.values())) == 3

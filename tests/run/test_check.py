def test_problems_before_a_read_error_are_counted(tmp_path, monkeypatch):
    """The problems of a file that failed midway were dropped with it."""
    from lore.errors import LoreError
    from lore.recording import corpus
    from lore.run.checking.check import check

    head = b'{"kind":"session_started","session_id":"s"}\n{"kind":"odd"}\n'

    def torn():
        yield head
        raise LoreError("cannot read it: input/output error")

    (tmp_path / "a.jsonl").write_bytes(head)
    monkeypatch.setattr(corpus, "open_head", lambda _: corpus.Opened(head, torn()))
    outcome = check([str(tmp_path)])
    result, incomplete = outcome.result, outcome.incomplete
    assert ([one.code for one in result.problems], incomplete) == (["LORE203", "LORE215"], True)

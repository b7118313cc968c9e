"""How far predictions agree with usage."""

from lore.judge.agreement import Transition, measure_agreement


def test_exact_and_close_predictions_are_counted():
    agreement = measure_agreement([Transition(100, 100, 100), Transition(100, 98, 110), Transition(100, 90, 100)])
    assert (agreement.turns, agreement.exact, agreement.within_2_percent) == (3, 1, 2)
    assert (agreement.mean_absolute_error_tokens, agreement.naive_mean_absolute_error_tokens) == (4.0, 3.3)


def test_drops_are_predicted_missed_or_false():
    rows = [
        Transition(0, 0, 5_000),
        Transition(0, 5_000, 5_000),
        Transition(5_000, 0, 5_000),
        Transition(4_000, 4_500, 5_000),
        Transition(0, 2_000, 5_000),
    ]
    agreement = measure_agreement(rows)
    assert (agreement.drops, agreement.drops_predicted, agreement.false_drops) == (3, 2, 1)

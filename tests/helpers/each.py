"""Many small cases as one test: a pure check of a row costs less than pytest's own work for a test of its own.

    @each(SAMPLES)                     each value of a mapping, named by its key
    def test_a_sample_is_masked(sample): ...

    @each("text, hidden", ROWS)        each row, whose members have these names
    def test_a_text_is_masked(text, hidden): ...

For cases that share no state: a fixture is made once for all of them. Every case is tried; what failed is raised as a
group whose members say which case they are.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def each(*given: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test over all cases, which it takes as its first argument, or as several of given names."""
    cases: Mapping[Any, Any] | Iterable[Any] = given[-1]
    names: list[str] = given[0].split(", ") if len(given) > 1 else []
    named = list(cases.items()) if isinstance(cases, Mapping) else [(one, one) for one in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            assert named, "no cases"
            failed: list[Exception] = []
            for name, case in named:
                try:
                    if not names:
                        test(case, **fixtures)
                    else:
                        members = case if len(names) > 1 else (case,)
                        test(**dict(zip(names, members, strict=True)), **fixtures)
                except Exception as error:  # noqa: BLE001 - raised below, with the others
                    error.add_note(f"case: {name}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(named)} cases", failed)

        signature = inspect.signature(test)
        own = names or list(signature.parameters)[:1]
        rest = [one for name, one in signature.parameters.items() if name not in own]
        run.__signature__ = signature.replace(parameters=rest)  # pyright: ignore[reportAttributeAccessIssue]
        return run

    return decorate

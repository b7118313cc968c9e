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


def each(*arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test over all cases, which it takes as its first argument, or as several of given names."""
    cases: Mapping[Any, Any] | Iterable[Any] = arguments[-1]
    names: list[str] = arguments[0].split(", ") if len(arguments) > 1 else []
    named_cases = list(cases.items()) if isinstance(cases, Mapping) else [(value, value) for value in cases]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            assert named_cases, "no cases"
            failed: list[Exception] = []
            for name, case in named_cases:
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
                raise ExceptionGroup(f"{len(failed)} of {len(named_cases)} cases", failed)

        signature = inspect.signature(test)
        case_names = names or list(signature.parameters)[:1]
        fixture_params = [value for name, value in signature.parameters.items() if name not in case_names]
        run.__signature__ = signature.replace(parameters=fixture_params)  # pyright: ignore[reportAttributeAccessIssue]
        return run

    return decorate

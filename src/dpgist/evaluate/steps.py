"""How far an evaluation is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and what comes next."""


class Steps:
    """Count the steps of an evaluation and tell whoever watches.

    Privacy: counts steps, never rows.
    """

    def __init__(self, total: int, watch: Progress | None) -> None:
        self._total, self._done, self._watch = total, 0, watch

    def doing(self, what: str) -> None:
        """Say what comes next."""
        if self._watch is not None:
            self._watch(self._done, self._total, what)

    def finish(self, what: str, steps: int = 1) -> None:
        """Count ``steps`` as done."""
        self._done += steps
        self.doing(what)

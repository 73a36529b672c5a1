"""The door of the box. The import rules let the curator and DP-SGD alone import this module."""

from __future__ import annotations

from typing import TypeVar

from dpgist.privacy.private import Private

T = TypeVar("T")


def opened(private: Private[T]) -> T:
    """The data inside the box.

    Privacy: whoever calls this has charged the ledger first or reads public structure only.
    """
    return private._held

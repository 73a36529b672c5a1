"""A box around private data that nobody but the curator and DP-SGD open."""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

from dpgist.errors import PrivacyError

T = TypeVar("T")


class Private(Generic[T]):
    """Private data. It has no length, no items, no text; only the wall may look inside.

    The function that opens it lives in ``opening.py``, which the import rules let ``curator.py``
    and ``sgd.py`` alone import.

    Privacy: a type, not an enforcement; it makes an accidental look an error.
    """

    __slots__ = ("_held",)

    def __init__(self, data: T) -> None:
        self._held = data

    def __repr__(self) -> str:
        return "Private(...)"

    __str__ = __repr__

    def _refuse(self, *_: object) -> NoReturn:
        raise PrivacyError("private rows cannot be looked at; release a gist and use that")

    __len__ = __iter__ = __getitem__ = __contains__ = __bool__ = __eq__ = _refuse
    __reduce_ex__ = __reduce__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __hash__ = None  # type: ignore[assignment]

"""The command line: ``dpgist VERB``. Results on stdout, everything else on stderr."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from dpgist.cli import classify, free, private, report, scores
from dpgist.cli.console import app, complain
from dpgist.errors import BudgetExceeded, DpgistError

__all__ = ["app", "main"]

_VERBS = (classify, free, private, report, scores)  # importing them registers their verbs


def main(arguments: list[str] | None = None) -> None:
    """Run one verb and leave with 0 (done), 1 (check failed, budget refused) or 2 (misuse).

    Privacy: a mistake ends in one line that names rules, files and columns, never a cell.
    """
    try:
        app(arguments, prog_name="dpgist")
    except BudgetExceeded as error:
        complain(str(error))
        sys.exit(1)
    except (DpgistError, ValueError) as error:
        complain(str(error))
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        complain(f"{where}{error.strerror or type(error).__name__}")
        sys.exit(2)
    except MemoryError:
        complain("there is not enough memory for this; ask for less, such as fewer rows")
        sys.exit(2)
    except Exception as error:
        # A foreign message could quote a cell, so only its kind and place are shown.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        complain(
            f"internal error: {type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}"
            " (its message is withheld: it could quote a private cell); please report it"
        )
        sys.exit(2)

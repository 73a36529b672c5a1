"""T-RACE: many processes, one ledger, never more than the cap."""

import os

from dpgist.errors import BudgetExceeded
from dpgist.privacy.ledger import Ledger


def charge_a_tenth(path):
    """In a process of its own: exit code 0 if the charge was taken, 3 if it was refused."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        ledger = Ledger.open(path)
        ledger.charge(ledger.cap_units // 10, what={})
        code = 0
    except BudgetExceeded:
        code = 3
    finally:
        os._exit(code)


def test_of_24_processes_that_want_a_tenth_exactly_ten_succeed(tmp_path):
    path = tmp_path / "l"
    ledger = Ledger.create(path, name="t", epsilon=1, delta=1e-5, relation="add_remove")
    children = [charge_a_tenth(path) for _ in range(24)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert sorted(codes) == [0] * 10 + [3] * 14
    assert ledger.spent_units() == 10 * (ledger.cap_units // 10) <= ledger.cap_units

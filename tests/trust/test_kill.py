"""T-KILL: a process killed at any moment leaves charges, and never an artefact without one."""

import json
import subprocess
import sys
from pathlib import Path

import dpgist as dg
from dpgist.privacy.ledger import Ledger

KILLS = 30


def test_thirty_kills_leave_no_torn_or_unpaid_artefact(tmp_path):
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(KILLS)],
        capture_output=True, text=True, timeout=400, check=True,
    )  # fmt: skip
    ends = json.loads(done.stdout)
    assert len(ends) == KILLS
    assert all(end == "killed" for end in ends)
    ledger = Ledger.open(tmp_path / "ledger")
    lines = {line.head: line for line in ledger.entries()}
    gists = [dg.read_gist(path) for path in sorted(tmp_path.glob("*.gist"))]
    assert gists, "no release ever came through: nothing was tested"
    assert ledger.unfinished(), "no kill ever hit a release: nothing was tested"
    for gist in gists:
        assert lines[gist.ledger.head].body["kind"] == "charge"
    charges = [line for line in lines.values() if line.body["kind"] == "charge"]
    assert len(charges) >= len(gists)
    assert len({gist.ledger.sequence for gist in gists}) == len(gists)
    spent = sum(gist.released.mu_squared_units for gist in gists)
    assert ledger.spent_units() >= spent
    leftovers = [
        p.name for p in tmp_path.iterdir() if p.suffix not in (".gist", ".tmp", ".csv", "")
    ]
    assert set(leftovers) <= {"ledger-journal"}


def test_after_a_kill_between_charge_and_release_a_rerun_is_a_new_charge(tmp_path):
    script = Path(__file__).with_name("killed.py")
    subprocess.run([sys.executable, str(script), str(tmp_path), "between"], timeout=200, check=True)
    ledger = Ledger.open(tmp_path / "ledger")
    assert ledger.unfinished() == [1]
    assert list(tmp_path.glob("*.gist")) == []
    subprocess.run([sys.executable, str(script), str(tmp_path), "once"], timeout=200, check=True)
    assert Ledger.open(tmp_path / "ledger").unfinished() == [1]
    assert dg.read_gist(tmp_path / "once.gist").ledger.sequence == 2

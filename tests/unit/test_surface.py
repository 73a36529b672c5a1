"""The public surface is curated and says what each part means for privacy."""

import inspect
import subprocess
import sys

import pytest

import dpgist as dg

DOCUMENTED = [
    name
    for name in dg.__all__
    if name != "__version__" and not name.endswith(("Error", "Exceeded"))
] + ["NoiseError"]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_everything_public_has_a_privacy_line(name):
    thing = getattr(dg, name)
    assert "Privacy:" in (inspect.getdoc(thing) or ""), name


def test_the_surface_holds_the_calls_of_the_design():
    for name in ("Schema", "Budget", "Merf", "release", "train", "synthesize", "plan", "evaluate"):
        assert name in dg.__all__
    for name in ("read_gist", "read_model", "Ledger", "Training"):
        assert name in dg.__all__


def test_every_error_of_ours_has_one_root():
    for name in ("PrivacyError", "DataError", "BudgetExceeded", "ArtefactError"):
        assert issubclass(getattr(dg, name), dg.DpgistError)


def test_importing_seeds_and_changes_no_global_randomness():
    code = (
        "import numpy as np, torch; a = np.random.get_state()[1].tobytes(), torch.get_rng_state();"
        "import dpgist; b = np.random.get_state()[1].tobytes(), torch.get_rng_state();"
        "assert a[0] == b[0] and torch.equal(a[1], b[1])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

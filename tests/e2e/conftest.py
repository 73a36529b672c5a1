"""A small private table, and the command line run in this process."""

import csv
import re

import numpy as np
import pytest

from dpgist.cli import main

SCHEMA_TOML = """
[table]
name = "people"
label = "smoker"
ignore = ["id"]
[columns.age]
type = "integer"
min = 0
max = 110
[columns.height]
type = "number"
min = 1.0
max = 2.2
decimals = 2
nullable = true
[columns.smoker]
type = "boolean"
"""
BUDGET = ["--epsilon", "1", "--delta", "1e-6"]


class Outcome:
    """Exit status and what was printed."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def dpgist(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capfd.readouterr()
        status = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            status = leaving.code or 0
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return Outcome(status, out, re.sub(r"\x1b\[[0-9;]*m", "", err))

    return run


@pytest.fixture
def people(tmp_path):
    """people.csv, people.toml and people.ledger in the working folder."""
    rng = np.random.default_rng(3)
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "age", "height", "smoker"])
        for row in range(300):
            height = "" if row % 7 == 0 else f"{rng.normal(1.7, 0.1):.2f}"
            writer.writerow([row, rng.integers(18, 90), height, row % 3 == 0])
    (tmp_path / "people.toml").write_text(SCHEMA_TOML)
    return tmp_path


@pytest.fixture
def ledger(people, dpgist):
    assert dpgist("ledger", "create", "people.ledger", "--name", "people", *BUDGET).status == 0
    return people / "people.ledger"


@pytest.fixture
def release(dpgist, ledger):
    """Run `dpgist release` with the right arguments, except those given."""

    def run(data="people.csv", **changes):
        options = {
            "schema": "people.toml",
            "epsilon": "0.5",
            "delta": "1e-6",
            "ledger": "people.ledger",
            "out": "people.gist",
        } | changes
        flat = [part for key, value in options.items() for part in (f"--{key}", value)]
        return dpgist("release", data, *flat)

    return run

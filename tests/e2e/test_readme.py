"""What the README shows is what happens."""

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", README, re.DOTALL).group(1)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.integers(18, 90, 500), "smoker": rng.random(500) < 0.3})


def test_ten_lines_of_python_work_from_a_dataframe(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = block("python")
    assert len([line for line in code.splitlines() if line]) == 10
    names = {"table": table}
    exec(code, names)
    assert isinstance(names["rows"], pd.DataFrame)
    assert list(names["rows"].columns) == ["age", "smoker"]
    assert len(names["rows"]) == 1000
    assert "GUARANTEE" in capsys.readouterr().out


def test_ten_lines_of_shell_work_from_a_csv_file(table, tmp_path, dpgist):
    table.insert(0, "id", range(len(table)))
    table["diagnosis"] = np.array(["asthma", "stroke", "flu", ""])[np.arange(len(table)) % 4]
    table.to_csv(tmp_path / "patients.csv", index=False)
    (tmp_path / "patients.toml").write_text(block("toml"))
    lines = block("sh").splitlines()
    assert len(lines) == 10
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "dpgist"
        assert dpgist(*arguments).status == 0, line
    assert pyarrow.parquet.read_table(tmp_path / "synthetic.parquet").num_rows == 10_000
    assert (tmp_path / "everything" / "card.txt").exists()


def test_the_pictures_exist():
    for name in re.findall(r"\]\((docs/[^)]+)\)", README):
        assert (Path(__file__).parents[2] / name).is_file(), name

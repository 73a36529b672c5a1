"""T-LOG: nothing private in output, logs, errors, file names or files other than the release."""

import logging
import re
import traceback

import pandas as pd
import pytest

import dpgist as dg
from dpgist.cli import main
from dpgist.encode import Encoder
from dpgist.privacy.ledger import Ledger

CANARY = "ZebraCanary91"
CANARY_NUMBER = 87_654_321
RELEASE = "release data.csv --schema schema.toml --epsilon 1 --delta 1e-5 --ledger l"

SCHEMA = """
[table]
name = "people"
label = "ill"
[columns.age]
type = "integer"
min = 0
max = 100
[columns.town]
type = "category"
values = ["A", "B"]
[columns.ill]
type = "boolean"
"""


def write_world(folder, rows):
    folder.mkdir()
    (folder / "schema.toml").write_text(SCHEMA)
    lines = ["age,town,ill", *rows]
    (folder / "data.csv").write_text("\n".join(lines) + "\n")


def run(folder, capfd, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as leaving:
            main([*arguments])
        captured = capfd.readouterr()
    return leaving.value.code or 0, captured.out + captured.err


def everything(folder, capfd, caplog, rows):
    """All that a user can see of a whole run, and every byte it wrote."""
    write_world(folder, rows)
    shown = []
    with caplog.at_level(logging.DEBUG):
        for arguments in (
            "ledger create l --name people --epsilon 1 --delta 1e-5",
            f"{RELEASE} --out x.gist",
            "show x.gist",
            "train x.gist --out x.model --steps 3",
            "sample x.model --rows 50 --out rows.csv",
            "synthesize data.csv --schema schema.toml --epsilon 1 --delta 1e-5 --out s --steps 3",
            "report s",
            f"{RELEASE} --out y.gist",
        ):
            code, text = run(folder, capfd, *arguments.split())
            shown.append((arguments.split()[0], code, text))
    written = {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "data.csv"
    }
    return shown, written, caplog.text


CANARY_ROWS = [f"{CANARY_NUMBER},{CANARY},{CANARY}"] * 3 + ["40,A,true"] * 30


def test_a_canary_is_nowhere_but_in_the_private_file(tmp_path, capfd, caplog):
    shown, written, logged = everything(tmp_path / "w", capfd, caplog, CANARY_ROWS)
    assert [code for _, code, _ in shown] == [0, 0, 0, 0, 0, 0, 0, 1]
    seen = [text.encode() for _, _, text in shown] + [logged.encode()]
    for content in [*seen, *written.values(), *(str(path).encode() for path in written)]:
        assert CANARY.encode() not in content
        assert str(CANARY_NUMBER).encode() not in content


def test_neighbours_show_the_same_words_and_the_same_files(tmp_path, capfd, caplog):
    """Everything but the release itself is equal for two very different tables."""
    first = everything(tmp_path / "one", capfd, caplog, CANARY_ROWS)
    caplog.clear()
    second = everything(tmp_path / "two", capfd, caplog, ["7,B,false"])
    private_verbs = ("ledger", "release")
    for (verb, code, text), (_, other_code, other) in zip(first[0], second[0], strict=True):
        assert code == other_code
        if verb in private_verbs:
            assert plain(text) == plain(other), verb
    assert set(first[1]) == set(second[1])
    assert plain(first[2]) == plain(second[2])


def plain(text):
    """Without what names a moment, a ledger or a file position rather than data."""
    return re.sub(r"[0-9a-f]{32,}|\d+:\d\d:\d\d|\d{4}-\d\d-\d\dT[^ ]*", "-", text)


def test_a_pass_that_fails_tells_nothing_about_why(monkeypatch):
    def explode(self, cells):
        raise RuntimeError(f"bad cell {CANARY}")

    monkeypatch.setattr(Encoder, "encode", explode)
    schema = dg.Schema(name="t", columns=(dg.CategoryColumn(name="c", values=("A",)),))
    budget = dg.Budget(epsilon=1.0, delta=1e-5)
    ledger = Ledger.in_memory(name="t", budget=budget, max_rows_per_person=1)
    with pytest.raises(dg.PrivacyError, match="charge stays") as caught:
        dg.release(pd.DataFrame({"c": [CANARY]}), schema, None, budget, ledger=ledger)
    whole = "".join(traceback.format_exception(caught.value, chain=True))
    assert CANARY not in whole.replace(str(__file__), "")
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert ledger.unfinished() == [1]


def test_boxes_sources_and_gists_show_nothing_in_their_text():
    from dpgist.privacy.private import Private
    from dpgist.sources import open_source

    source = open_source(pd.DataFrame({"c": [CANARY] * 77}))
    for thing in (source, Private(source)):
        assert CANARY not in repr(thing) + str(thing)
        assert "77" not in repr(thing) + str(thing)
    with pytest.raises(dg.PrivacyError):
        len(Private(source))

"""A report from the gist alone: true, complete, harmless, and inside the guarantee."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from tests.made_folders import SMALL, write_folder
from tests.made_gists import MIXED, STRIPES, gist_of, mixed_table, stripe_images

from dpgist import Training, train
from dpgist.encode import Encoder
from dpgist.errors import DataError, PrivacyError
from dpgist.methods import Marginal, Merf
from dpgist.privacy.ledger import Ledger
from dpgist.privacy.plan import Budget
from dpgist.report import write_report
from dpgist.report.advice import advise
from dpgist.report.comparison_page import MAP
from dpgist.report.folder import read_folder
from dpgist.report.inside import look_inside, loss_floor, noisy_choices
from dpgist.report.outside_figures import heat_figure
from dpgist.report.page import render
from dpgist.report.svg import fit_ends, text_width
from dpgist.schema import BooleanColumn
from dpgist.training.matching import target_from


@pytest.fixture(scope="module")
def mixed():
    """A gist of 4,000 rows, a model trained from it and rows drawn from that."""
    gist = gist_of(mixed_table(4_000), MIXED, SMALL, epsilon=2.0)
    model = train(gist, Training(steps=60))
    return gist, model, model.sample(3_000, seed=0, kind="pyarrow")


@pytest.fixture
def folder(mixed, tmp_path):
    return write_folder(tmp_path / "out", *mixed)


def true_loss(gist, table):
    """The matching loss of the rows themselves against the noisy target."""
    encoder = Encoder(gist.schema)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    encoded = encoder.encode({name: arrow[name].combine_chunks() for name in encoder.columns})
    target = target_from(gist.released, class_allowed=encoder.class_allowed)
    row_map = SMALL.row_map(gist.schema, feature_seed=gist.feature_seed)
    features = row_map(torch.tensor(encoded.rows))
    total = 0.0
    for values, mean, weight in zip(features, target.means, target.loss_weights, strict=True):
        for place, code in enumerate(target.classes):
            own = values[encoded.labels == code].double().mean(dim=0).numpy()
            gap = float(((own - mean[place]) ** 2).sum())
            total += weight * target.class_weights[place] * gap
    return total


def test_the_truth_scores_at_the_loss_that_the_noise_is_said_to_leave():
    table = mixed_table(4_000)
    ratios = []
    for _ in range(8):
        gist = gist_of(table, MIXED, SMALL, epsilon=2.0)
        ratios.append(true_loss(gist, table) / loss_floor(gist))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.2)  # each has a relative std of about 0.1


def test_noisy_shares_are_the_true_ones_up_to_the_noise_they_state(mixed):
    gist, _, _ = mixed
    table = mixed_table(4_000)
    shares, std = noisy_choices(gist)["stage"]
    truth = [(table["stage"] == value).mean() for value in ("i", "ii", "iii", "iv")]
    assert 0 < std < 0.05
    assert shares == pytest.approx(truth, abs=6 * std + 0.02)  # the count divided by is noisy too
    nulls, _ = noisy_choices(gist)["dose"]
    assert nulls[1] == pytest.approx(table["dose"].isna().mean(), abs=6 * std + 0.02)


def test_values_other_and_null_stand_beside_their_own_synthetic_shares(mixed):
    inside = look_inside(*mixed)
    by_name = {marginal.column: marginal for marginal in inside.marginals}
    assert by_name["ward"].names == ("a", "b", "c", "null")
    assert by_name["stage"].names == ("i", "ii", "iii", "later")
    for name in ("ward", "stage"):
        one = by_name[name]
        assert one.noisy == pytest.approx(one.synthetic, abs=0.12)
        assert one.gap < 0.12
    assert {marginal.column for marginal in inside.marginals} == {
        column.name for column in MIXED.columns if column.name != "ill"
    }


def test_classes_are_shown_beside_their_noisy_shares(mixed):
    inside = look_inside(*mixed)
    assert [entry.name for entry in inside.classes] == ["false", "true", "(undeclared)"]
    assert sum(entry.synthetic for entry in inside.classes) == pytest.approx(1)
    for entry in inside.classes[:2]:
        assert entry.noisy == pytest.approx(entry.synthetic, abs=0.1)


def test_the_page_and_its_twin_say_that_they_are_inside_the_guarantee(folder, mixed):
    write_report(folder)
    page = (folder / "report.html").read_text()
    twin = json.loads((folder / "report.json").read_text())
    assert "Inside the guarantee." in page
    assert "outside the guarantee" not in page
    assert twin["inside_the_guarantee"] is True
    assert twin["card"] == json.loads(json.dumps(mixed[0].card_dict()))
    assert twin["outside"] is None
    assert twin["inside"]["marginals"][0]["column"] == "age"


def test_the_page_asks_for_nothing_and_runs_nothing(folder):
    write_report(folder)
    page = (folder / "report.html").read_text()
    for word in ("http://", "https://", "<script", "url(", "@import"):
        assert word not in page, word


def test_a_report_from_the_gist_alone_needs_neither_model_nor_rows(folder):
    (folder / "generator.model").unlink()
    (folder / "synthetic.parquet").unlink()
    content = write_report(folder)
    assert content.inside.curve is None
    assert content.inside.n_synthetic is None
    page = (folder / "report.html").read_text()
    assert "no synthetic rows in the folder" in page
    assert "made from the released gist. No real row" in page
    assert "The percentage is the noisy one." in page
    assert "among the synthetic rows" not in page


def test_a_model_without_rows_is_named_among_what_the_report_was_made_from(folder):
    (folder / "synthetic.parquet").unlink()
    assert "the released gist and the model trained from it. No" in write_report(folder).stamp


def test_without_advice_there_is_no_heading_for_it(folder):
    content = write_report(folder)
    assert 'id="advice"' in render(content, {})
    assert "#advice" not in (bare := render(replace(content, advice=()), {}))
    assert 'id="advice"' not in bare


def test_numbers_among_the_synthetic_rows_have_few_digits_and_texts_all_their_letters(folder):
    content = write_report(folder)
    names = content.inside.shown_columns
    row = ["1234567890123456789"] * len(names)
    shown = replace(content.inside, shown_rows=(tuple(row),))
    page = render(replace(content, inside=shown), {})
    assert page.count(">1.23457e+18<") == 2  # gain and dose
    assert page.count(">1234567890123456789<") == len(names) - 2


def test_images_are_not_advised_to_drop_columns(stripes, mixed):
    for (gist, model, rows), expected in ((stripes, False), (mixed, True)):
        advice = advise(gist, look_inside(gist, model, rows))
        assert any("ignore" in piece.do for piece in advice) is expected
        assert any("merge rare" in piece.do for piece in advice)


def test_percentages_are_written_alike(folder):
    write_report(folder)
    page = (folder / "report.html").read_text()
    texts = re.sub(r"<[^>]*>", "", page[page.index("</style>") :])
    assert re.search(r"null: \d+\.\d % synthetic", texts)
    assert re.search(r"\d%", texts) is None


def test_long_names_that_begin_alike_are_cut_in_their_middle():
    names = [f"column_with_a_long_name_{place}" for place in range(18)]
    shown = [fit_ends(name, 10, 60) for name in names]
    assert len(set(shown)) == 18
    assert all(text_width(text, 10) <= 60 and "…" in text for text in shown)
    assert fit_ends("short", 10, 60) == "short"


def test_three_maps_of_long_names_stand_side_by_side_on_a_page_1280_wide():
    names = [f"column_with_a_long_name_{place}" for place in range(18)]
    drawn = heat_figure("Real", names, [[0.0] * 18] * 18, reach=1.0, size=MAP)
    width = float(re.search(r'width="([\d.]+)"', drawn).group(1))
    assert 3 * width + 2 * 14 <= 994  # what the frame of the section leaves


def test_a_report_from_the_gist_alone_writes_no_ledger_line(folder, mixed, tmp_path):
    ledger = Ledger.create(
        folder / "ledger.sqlite", name="mixed", epsilon=1, delta=1e-5, relation="add_remove"
    )
    stamp = replace(mixed[0].ledger, ledger_id=ledger.ledger_id)
    own = write_folder(
        tmp_path / "own",
        replace(mixed[0], ledger=stamp),
        replace(mixed[1], gist_header=replace(mixed[0], ledger=stamp).header()),
        mixed[2],
    )
    (folder / "ledger.sqlite").rename(own / "ledger.sqlite")
    write_report(own)
    assert len(Ledger.open(own / "ledger.sqlite").entries()) == 1


def test_hostile_names_cannot_leave_their_place(tmp_path):
    evil = '"><script>alert(1)</script>'
    columns = tuple(
        replace(column, name=evil if column.name == "ward" else column.name)
        for column in MIXED.columns
    )
    schema = replace(MIXED, name=f"</title>{evil}", columns=columns)
    gist = gist_of(mixed_table(500).rename(columns={"ward": evil}), schema, SMALL)
    model = train(gist, Training(steps=2))
    rows = model.sample(50, seed=0, kind="pyarrow")
    folder = write_folder(tmp_path / "out", gist, model, rows)
    write_report(folder)
    page = (folder / "report.html").read_text()
    assert "<script" not in page
    assert page.count("</title>") == page.count("<title>")
    assert "&lt;script&gt;alert(1)" in page


def test_images_are_in_the_page_itself(tmp_path):
    gist = gist_of(stripe_images(200), STRIPES, Merf(image_frequencies=50))
    model = train(gist, Training(steps=2))
    folder = write_folder(tmp_path / "out", gist, model, model.sample(40, seed=0, kind="pyarrow"))
    content = write_report(folder)
    page = (folder / "report.html").read_text()
    assert page.count('<img src="data:image/png;base64,') == 2
    assert content.inside.marginals == ()
    assert sum(entry.synthetic for entry in content.inside.classes) == pytest.approx(1)


def test_nothing_is_overwritten_without_force(folder):
    write_report(folder)
    before = (folder / "report.html").read_bytes()
    with pytest.raises(FileExistsError):
        write_report(folder)
    assert (folder / "report.html").read_bytes() == before
    write_report(folder, force=True)


def test_files_that_do_not_belong_together_are_refused(folder, mixed, tmp_path):
    other = gist_of(mixed_table(200), MIXED, SMALL)
    other.save(folder / "release.gist", force=True)
    with pytest.raises(DataError, match="was not trained from"):
        write_report(folder)
    (folder / "generator.model").unlink()
    pa.parquet.write_table(mixed[2].drop_columns(["age"]), folder / "synthetic.parquet")
    with pytest.raises(DataError, match="lacks column 'age'"):
        write_report(folder)
    (folder / "synthetic.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(DataError, match="cannot be read"):
        write_report(folder)
    with pytest.raises(DataError, match=r"release\.gist"):
        write_report(tmp_path)


def refused_rows(folder, path):
    """The complaint about synthetic rows, which must name their file."""
    with pytest.raises(DataError, match=re.escape(str(path))) as caught:
        write_report(folder)
    assert not (folder / "report.html").exists()
    return str(caught.value)


def test_damaged_rows_are_refused_by_the_name_of_their_file(folder, mixed):
    path = folder / "synthetic.parquet"
    content = path.read_bytes()
    page = content[:40] + bytes(200) + content[240:]
    for damaged in (b"", content[: len(content) // 2], page):
        path.write_bytes(damaged)
        assert "cannot be read" in refused_rows(folder, path)


def test_rows_of_other_types_are_refused_and_no_cell_is_quoted(folder, mixed):
    path, rows = folder / "synthetic.parquet", mixed[2]
    canary = pa.array(["canary"] * len(rows))
    for column, words in (("age", "'age' is declared integer"), ("seen", "cannot be read")):
        at = rows.column_names.index(column)
        pa.parquet.write_table(rows.set_column(at, column, canary), path)
        complaint = refused_rows(folder, path)
        assert words in complaint
        assert "canary" not in complaint


def test_rows_of_types_that_say_the_same_are_read(folder, mixed):
    rows = mixed[2]
    texts = rows.set_column(rows.column_names.index("seen"), "seen", rows["seen"].cast(pa.string()))
    turned = texts.select(texts.column_names[::-1])
    pa.parquet.write_table(turned, folder / "synthetic.parquet")
    assert read_folder(folder).rows.equals(rows)


@pytest.fixture(scope="module")
def stripes():
    gist = gist_of(stripe_images(200), STRIPES, Merf(image_frequencies=50))
    model = train(gist, Training(steps=2))
    return gist, model, model.sample(40, seed=0, kind="pyarrow")


def test_damaged_images_are_refused_by_the_name_of_their_file(stripes, tmp_path):
    folder = write_folder(tmp_path / "out", *stripes)
    path = folder / "synthetic.npz"
    content = path.read_bytes()
    at = content.index(b"x.npy") + 200
    flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    for damaged in (b"", content[: len(content) // 2], flipped):
        path.write_bytes(damaged)
        assert "cannot be read" in refused_rows(folder, path)
    np.savez(path, y=np.array(["down"]))
    assert "no array 'x'" in refused_rows(folder, path)
    np.savez(path, x=np.zeros((1, 4, 8), np.uint8), y=np.array(["down"]))
    assert "images are 4 x 8 pixels" in refused_rows(folder, path)


@pytest.mark.parametrize("nullable", [False, True])
def test_images_come_back_with_the_labels_they_were_written_with(tmp_path, nullable):
    label = BooleanColumn(name="way", nullable=nullable)
    schema = replace(STRIPES, columns=(STRIPES.columns[0], label))
    images = stripe_images(200)
    images["y"] = images["y"] == "down"
    gist = gist_of(images, schema, Merf(image_frequencies=50))
    model = train(gist, Training(steps=2))
    labels = pa.array([True, False, None if nullable else True], pa.bool_())
    rows = model.sample(3, seed=0, kind="pyarrow").set_column(1, "way", labels)
    folder = write_folder(tmp_path / "out", gist, model, rows)
    assert read_folder(folder).rows.equals(rows)


def test_a_ledger_of_another_table_is_refused(folder):
    Ledger.create(
        folder / "ledger.sqlite", name="mixed", epsilon=1, delta=1e-5, relation="add_remove"
    )
    with pytest.raises(PrivacyError, match="not the ledger"):
        write_report(folder)


# --- advice ---------------------------------------------------------------------------------


def titles(gist, inside):
    return [piece.title for piece in advise(gist, inside)]


def test_training_that_stops_early_is_told_to_go_on_and_finished_training_is_not(mixed):
    gist, model, rows = mixed
    inside = look_inside(gist, model, rows)
    early = replace(inside, curve=replace(inside.curve, last=10 * inside.curve.floor))
    done = replace(inside, curve=replace(inside.curve, last=inside.curve.floor))
    assert "Training stopped above the noise" in titles(gist, early)
    assert "Training has used up the gist" in titles(gist, done)
    assert "--steps 240" in next(p.do for p in advise(gist, early) if "stopped" in p.title)


def test_noise_is_judged_against_the_signal(mixed):
    gist, model, rows = mixed
    inside = look_inside(gist, model, rows)
    for share, word in ((0.9, "drowns"), (0.1, "a good part"), (0.001, "small beside")):
        first = inside.curve.floor / share
        curve = replace(inside.curve, losses=(first, *inside.curve.losses[1:]))
        assert any(word in title for title in titles(gist, replace(inside, curve=curve))), word


def test_broken_cells_are_noticed_in_their_column_and_no_other():
    table = mixed_table(4_000)
    table.loc[:1500, "stage"] = ""  # not nullable: breaks the schema
    gist = gist_of(table, MIXED, SMALL, epsilon=2.0)
    broken = [t for t in titles(gist, look_inside(gist, None, None)) if "broke the schema" in t]
    assert broken == ["Many cells of 'stage' broke the schema"]


def test_a_class_that_is_not_there_is_said_to_drown():
    table = mixed_table(2_000)
    table["ill"] = False
    gist = gist_of(table, MIXED, SMALL, epsilon=2.0)
    found = [p for p in advise(gist, look_inside(gist, None, None)) if "classes drown" in p.title]
    assert len(found) == 1
    assert "'true'" in found[0].why
    assert "'false'" not in found[0].why


def test_the_declared_row_count_is_compared_with_the_noisy_one():
    table = mixed_table(2_000)
    for declared, word in ((None, "does not say"), (9_000, "far off"), (2_000, None)):
        gist = gist_of(table, replace(MIXED, rows_about=declared), SMALL, epsilon=2.0)
        about = [t for t in titles(gist, look_inside(gist, None, None)) if "row" in t]
        assert [word in title for title in about] == ([] if word is None else [True])


def test_a_delta_that_permits_publishing_a_row_is_pointed_out(mixed):
    gist = mixed[0]
    loose = replace(gist.released, budget=Budget(epsilon=2.0, delta=0.1))
    assert any("Delta" in t for t in titles(replace(gist, released=loose), look_inside(*mixed)))
    assert not any("Delta" in t for t in titles(gist, look_inside(*mixed)))


def test_a_column_that_uses_little_of_its_range_is_pointed_out(mixed):
    inside = look_inside(*mixed)
    gain = next(m for m in inside.marginals if m.column == "gain")
    narrow = replace(gain, synthetic=(1.0, *([0.0] * (len(gain.synthetic) - 1))))
    even = replace(gain, synthetic=tuple(1 / len(gain.synthetic) for _ in gain.synthetic))
    for one, expected in ((narrow, True), (even, False)):
        found = titles(mixed[0], replace(inside, marginals=(one,)))
        assert any("little of its declared range" in title for title in found) is expected


def test_a_range_that_the_release_has_cut_to_measure_is_no_reason_for_advice(mixed):
    inside = look_inside(*mixed)
    gain = next(m for m in inside.marginals if m.column == "gain")
    narrow = replace(gain, synthetic=(1.0, *([0.0] * (len(gain.synthetic) - 1))))
    cut = gist_of(mixed_table(2_000), MIXED, Marginal(), epsilon=2.0)
    found = titles(cut, replace(inside, marginals=(narrow,)))
    assert not any("little of its declared range" in title for title in found)


def test_numbers_in_the_twin_are_always_finite(folder):
    content = write_report(folder)
    odd = replace(content, inside=replace(content.inside, n_synthetic=math.nan))
    assert odd.to_dict()["inside"]["n_synthetic"] is None

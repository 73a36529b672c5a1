"""The report in a real browser: everything renders, nothing is asked of the network."""

import csv

import numpy as np
import pytest
from tests import browser
from tests.made_gists import stripe_images

from dpgist.cli import main

pytestmark = pytest.mark.skipif(
    browser.BROWSER is None or browser.DRIVER is None, reason=browser.MISSING
)

HOSTILE = "<script>alert(1)</script>"
SCHEMA = f"""
[table]
name = "wards & <b>beds</b>"
label = "ill"
rows_about = 600
[columns.age]
type = "integer"
min = 0
max = 110
[columns."{HOSTILE}"]
type = "number"
min = 0
max = 1
nullable = true
[columns.seen]
type = "date"
min = "2024-01-01"
max = "2024-12-31"
[columns.a_name_that_goes_on_and_on_for_longer_than_any_panel_is_wide]
type = "category"
values = ["</svg><img src=x onerror=alert(2)>", "a value that is much longer than its place", "c"]
other = '"rest"'
[columns.ill]
type = "boolean"
"""
IMAGES = """
[table]
name = "stripes"
label = "way"
[columns.image]
type = "image"
height = 8
width = 8
channels = 1
[columns.way]
type = "category"
values = ["across", "down"]
"""
BUDGET = ["--epsilon", "2", "--delta", "1e-5"]


def dpgist(*arguments):
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    assert not leaving.value.code


def write_wards(path, seed, n=600):
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ["age", HOSTILE, "seen", "a_name_that_goes_on_and_on_for_longer_than_any_panel_is_wide",
             "ill"]
        )  # fmt: skip
        for _ in range(n):
            age = int(rng.integers(18, 95))
            name = rng.choice(
                ["</svg><img src=x onerror=alert(2)>", "a value that is much longer than its place"]
            )
            day = np.datetime64("2024-01-01") + int(rng.integers(366))
            writer.writerow([age, f"{rng.random():.2f}", day, name, rng.random() < age / 100])


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of a table with hostile names, inside and outside the guarantee, and of images."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "wards.toml").write_text(SCHEMA)
    (folder / "stripes.toml").write_text(IMAGES)
    write_wards(folder / "train.csv", seed=1)
    write_wards(folder / "test.csv", seed=2)
    np.savez(folder / "stripes.npz", **stripe_images(300))
    np.savez(folder / "stripes-test.npz", **stripe_images(200, seed=1))
    made = {
        "inside": ("train.csv", "wards.toml", ["--steps", 40], []),
        "outside": ("train.csv", "wards.toml", ["--steps", 40],
                    ["--real", folder / "test.csv", "--train", folder / "train.csv",
                     "--group", "age"]),
        "images": ("stripes.npz", "stripes.toml", ["--steps", 5, "--rows", 200], []),
        "images-outside": ("stripes.npz", "stripes.toml", ["--steps", 5, "--rows", 200],
                           ["--real", folder / "stripes-test.npz"]),
    }  # fmt: skip
    for name, (data, schema, training, real) in made.items():
        out = folder / name
        dpgist("synthesize", folder / data, "--schema", folder / schema, *BUDGET, "--out", out,
               *training)  # fmt: skip
        dpgist("report", out, *real)
    return {name: folder / name / "report.html" for name in made}


@pytest.fixture(scope="module")
def open_file():
    with browser.browser() as opening:
        yield opening


NAMES = ["inside", "outside", "images", "images-outside"]


@pytest.mark.parametrize("name", NAMES)
def test_the_report_opens_without_a_complaint_and_asks_for_nothing_outside(pages, open_file, name):
    page = open_file(pages[name])
    assert page.complaints == []
    assert page.requests, "the page itself must be among them"
    assert page.outside_requests() == []
    assert page.ask("document.scripts.length") == 0
    assert page.ask("document.querySelectorAll('svg, img').length") > 3


@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("name", NAMES)
def test_everything_is_drawn_and_nothing_sticks_out_or_overlaps(pages, open_file, name, width):
    page = open_file(pages[name])
    page.resize(width)
    assert page.empty_pictures() == []
    assert page.too_wide() == []
    assert page.clashes() == []


_CUT_CELLS = """[...document.querySelectorAll('table.drawn td')].filter(cell => {
  const text = cell.textContent, range = document.createRange();
  range.selectNodeContents(cell);
  return /^[^ ]{1,13}$/.test(text) && range.getClientRects().length > 1;
}).map(cell => cell.textContent)"""


@pytest.mark.parametrize("width", [1440, 1280, 800])
def test_no_number_or_short_word_of_the_synthetic_rows_is_cut(pages, open_file, width):
    page = open_file(pages["outside"])
    page.resize(width)
    assert page.ask("document.querySelectorAll('table.drawn td').length") == 25
    assert page.ask(_CUT_CELLS) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_report_can_be_printed(pages, open_file, name):
    assert open_file(pages[name]).printed().startswith(b"%PDF")


def test_hostile_names_are_shown_as_they_are(pages, open_file):
    page = open_file(pages["outside"])
    assert HOSTILE in page.ask("document.body.innerText")
    assert page.ask("document.querySelectorAll('h1 b').length") == 0


def test_images_are_shown_as_pictures(pages, open_file):
    page = open_file(pages["images"])
    assert page.ask("document.querySelectorAll('.strips img').length") == 2


def test_the_checks_notice_a_page_that_is_broken(pages, open_file, tmp_path):
    text = pages["inside"].read_text()
    start = text.index("<meta http-equiv=")
    text = text[:start] + text[text.index(">", start) + 1 :]  # the policy would refuse what follows
    broken = (
        '<img src="http://127.0.0.1:9/x.png"><div style="width: 3000px">wide</div><svg width="90" '
        'height="60"><text y="35">one</text><text x="4" y="35">two</text></svg>'
        "<script>console.error('bad')</script></body>"
    )
    (tmp_path / "broken.html").write_text(text.replace("</body>", broken))
    page = open_file(tmp_path / "broken.html")
    assert page.outside_requests() == ["http://127.0.0.1:9/x.png"]
    assert any("bad" in words for words in page.complaints)
    assert len(page.empty_pictures()) == 1
    assert len(page.too_wide()) >= 1
    assert len(page.clashes()) == 1

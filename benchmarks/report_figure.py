"""Draw docs/report.png: four parts of a report, as a browser shows them.

    make demo && python benchmarks/report_figure.py demo-output/patients/report.html

Needs chromium and chromedriver (see ``tests/browser.py``) and pillow.
"""

import argparse
import io
import sys
from pathlib import Path

from machine import ROOT
from PIL import Image

WIDTH, HEIGHT, GAP, ABOVE = 1090, 1470, 24, 44
PARTS = ("", "Gist and synthetic rows", "Against real rows", "Pairs of columns")
"""How the heading begins at which each part does; the first of all is the title."""
_TOP = """[...document.querySelectorAll('h1, h2, h3')].find(e => e.textContent.startsWith('{}'))
.getBoundingClientRect().top + scrollY"""


def main() -> None:
    """Photograph the page and put its parts side by side."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/report.png")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.browser import browser

    with browser() as open_file:
        page = open_file(options.report)
        page.resize(WIDTH)
        tops = [page.ask(_TOP.format(part)) for part in PARTS]
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    width = picture.width  # without the bar that scrolls
    board = Image.new("RGB", (2 * width + 3 * GAP, 2 * HEIGHT + 3 * GAP), "#d5dbe0")
    for number, top in enumerate(tops):
        part = picture.crop((0, int(top) - ABOVE, width, int(top) - ABOVE + HEIGHT))
        down, right = divmod(number, 2)
        board.paste(part, (GAP + right * (width + GAP), GAP + down * (HEIGHT + GAP)))
    smaller = board.resize((board.width * 2 // 3, board.height * 2 // 3), Image.Resampling.LANCZOS)
    smaller.quantize(method=Image.Quantize.MAXCOVERAGE).save(options.out, optimize=True)
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()

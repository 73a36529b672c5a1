"""The written argument quotes the code; a quote that no longer stands there is a broken proof."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lattice-and-sampler.md").read_text()
SOURCE = "\n".join(
    path.read_text() for path in sorted((ROOT / "src" / "dpgist" / "privacy").glob("*.py"))
)


def test_every_quoted_line_and_name_is_in_the_source():
    lines = re.findall(r"^    (\S.*)$", PAGE, flags=re.MULTILINE)
    spans = [span for span in re.findall(r"`([^`]+)`", PAGE) if "/" not in span]
    assert len(lines) >= 4
    known = ("mpmath", "dp_accounting", "torch.func.vmap")
    for quote in [*lines, *spans]:
        assert quote in known or quote.split(".")[-1] in SOURCE or quote in SOURCE, quote

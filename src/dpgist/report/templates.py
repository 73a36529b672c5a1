"""The pages' HTML: a frame with the privacy card, and what each kind of report puts into it."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

_TEMPLATES = ("frame.html", "badge.html", "page.html", "outside.html", "classifier.html")


def fill(name: str, context: dict[str, Any]) -> str:
    """A template's page; whatever is not marked as HTML is escaped, and nothing may be missing.

    Privacy: as private as the context.
    """
    folder = files("dpgist.report")
    texts = {template: (folder / template).read_text("utf-8") for template in _TEMPLATES}
    environment = Environment(
        loader=DictLoader(texts), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    css = Markup((folder / "page.css").read_text("utf-8"))  # our own file, no user's words
    return environment.get_template(name).render(css=css, **context)

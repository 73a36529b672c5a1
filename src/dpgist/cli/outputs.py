"""The folder that synthesize writes, and the one sequence that fills it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dpgist import plots, workflow
from dpgist.artefact import new_file, refuse_bad_output
from dpgist.cli.console import training_bar, write_table
from dpgist.generators.model import Model
from dpgist.gist import Gist
from dpgist.training.loop import Training


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Names of everything synthesize writes."""

    folder: Path
    force: bool

    @staticmethod
    def prepare(folder: Path, *, force: bool) -> Outputs:
        """Make the folder and refuse, before anything is spent, what could not be written."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plots").mkdir(exist_ok=True)
        outputs = Outputs(folder=folder, force=force)
        for path in outputs.files():
            refuse_bad_output(path, force=force)
        return outputs

    @property
    def gist(self) -> Path:
        return self.folder / "release.gist"

    @property
    def model(self) -> Path:
        return self.folder / "generator.model"

    @property
    def rows(self) -> Path:
        return self.folder / "synthetic.parquet"

    @property
    def card_text(self) -> Path:
        return self.folder / "card.txt"

    @property
    def card_json(self) -> Path:
        return self.folder / "card.json"

    def plot(self, name: str) -> Path:
        """A figure's file."""
        return self.folder / "plots" / f"{name}.png"

    def files(self) -> list[Path]:
        """Every file, in the order of writing."""
        fixed = [self.gist, self.card_text, self.card_json, self.model, self.rows]
        return [*fixed, self.plot("columns"), self.plot("loss")]


def write_outputs(
    gist: Gist,
    outputs: Outputs,
    *,
    rows: int | None,
    steps: int | None,
    device: str,
    seed: int,
) -> pa.Table:
    """Save a gist first of all, then train, sample and draw; return the rows.

    Privacy: post-processing of the gist; no private row is in reach.
    """
    force = outputs.force
    gist.save(outputs.gist, force=force)
    write_text(gist.card(), outputs.card_text, force=force)
    write_text(json.dumps(gist.card_dict(), indent=2), outputs.card_json, force=force)
    with training_bar() as progress:
        model = workflow.train(
            gist, Training(steps=steps), seed=seed, device=device, progress=progress
        )
    model.save(outputs.model, force=force)
    table = model.sample(rows or workflow.default_rows(gist), seed=seed, kind="pyarrow")
    write_table(table, outputs.rows, force=force)
    _draw(gist, model, table, outputs)
    return table


def write_text(text: str, path: Path, *, force: bool) -> None:
    """Write a text file, whole or not at all."""
    with new_file(path, force=force) as file:
        file.write(text.encode())


def _draw(gist: Gist, model: Model, table: pa.Table, outputs: Outputs) -> None:
    columns = plots.columns_figure(gist.schema, table, title=f"{gist.schema.name}, synthetic")
    plots.write_png(columns, outputs.plot("columns"), force=outputs.force)
    loss = plots.loss_figure(model.losses, steps=model.steps)
    plots.write_png(loss, outputs.plot("loss"), force=outputs.force)

"""What ends up on disk: tables, texts, and the folder that synthesize writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dpgist import plots, workflow
from dpgist.artefact import ResultFolder, new_file
from dpgist.cells import flat
from dpgist.columns import DateColumn, date_text
from dpgist.generators.model import Model
from dpgist.gist import Gist
from dpgist.pixels import image_arrays
from dpgist.schema import Schema
from dpgist.training.loop import Training

TrainingBar = Callable[[], AbstractContextManager[workflow.Progress]]
"""Opens a progress bar for one training run."""


def refuse_unknown_table(path: Path, schema: Schema) -> None:
    """Refuse, before any work, an output whose ending names no format for such rows.

    Privacy: looks at the name and the schema only.
    """
    endings = (".parquet", ".npz") if schema.image else (".parquet", ".csv")
    if path.suffix not in endings:
        raise ValueError(f"{path}: the output must end in {' or '.join(endings)}")


def write_table(table: pa.Table, path: Path, schema: Schema, *, force: bool) -> None:
    """Write rows as parquet or csv, images as parquet or npz, whole or not at all.

    Privacy: writes what it is given; callers give synthetic rows.
    """
    write_tables([table], path, schema, force=force)


def write_tables(tables: Iterable[pa.Table], path: Path, schema: Schema, *, force: bool) -> None:
    """Write the rows of one table or more, piece by piece; npz takes them all at once.

    Privacy: writes what it is given; callers give synthetic rows.
    """
    refuse_unknown_table(path, schema)
    write = {".parquet": _write_parquet, ".csv": _write_csv, ".npz": _write_npz}[path.suffix]
    with new_file(path, force=force) as file:
        write(iter(tables), file, schema)


def _write_parquet(tables: Iterator[pa.Table], file: BinaryIO, schema: Schema) -> None:
    del schema  # parquet has types of its own
    first = next(tables)
    with pa.parquet.ParquetWriter(file, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)


def _write_csv(tables: Iterator[pa.Table], file: BinaryIO, schema: Schema) -> None:
    options = pa.csv.WriteOptions()
    for table in tables:
        pa.csv.write_csv(_without_blank_lines(_with_formats(table, schema)), file, options)
        options.include_header = False


def _write_npz(tables: Iterator[pa.Table], file: BinaryIO, schema: Schema) -> None:
    arrays = image_arrays(pa.concat_tables(tables), schema)
    if "y" in arrays and arrays["y"].dtype == object:  # null has no place in an array
        arrays["y"] = np.array(["" if y is None else str(y) for y in arrays["y"]])
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _with_formats(table: pa.Table, schema: Schema) -> pa.Table:
    """The table with dates as text, in the format by which the schema reads them back."""
    for at, name in enumerate(table.column_names):
        column = schema.column(name)
        # Arrow writes dates in the default format by itself.
        if isinstance(column, DateColumn) and column.format != DateColumn.format:
            table = table.set_column(at, name, _date_texts(table[name], column.format))
    return table


def _date_texts(days: pa.ChunkedArray, form: str) -> pa.Array:
    distinct = flat(days).dictionary_encode()
    texts = [date_text(day, form) for day in distinct.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(distinct.indices)


def _without_blank_lines(table: pa.Table) -> pa.Table:
    """The table with nulls as quoted empty text if they would be all that there is on a line."""
    if table.num_columns != 1 or not table[0].null_count:
        return table
    return pa.table({table.column_names[0]: table[0].cast(pa.string()).fill_null("")})


def write_text(text: str, path: Path, *, force: bool) -> None:
    """Write a text file, whole or not at all.

    Privacy: writes what it is given.
    """
    with new_file(path, force=force) as file:
        file.write(text.encode())


@dataclass(frozen=True, kw_only=True)
class Outputs(ResultFolder):
    """Names of everything synthesize writes."""

    images: bool = False

    @property
    def gist(self) -> Path:
        return self.folder / "release.gist"

    @property
    def model(self) -> Path:
        return self.folder / "generator.model"

    @property
    def rows(self) -> Path:
        return self.folder / ("synthetic.npz" if self.images else "synthetic.parquet")

    def files(self) -> list[Path]:
        fixed = [self.gist, self.card_text, self.card_json, self.model, self.rows]
        return [*fixed, self.plot("images" if self.images else "columns"), self.plot("loss")]


def save_release(gist: Gist, outputs: Outputs) -> None:
    """Save a gist and its card: first of all, because the gist is what was paid for.

    Privacy: writes what was released.
    """
    gist.save(outputs.gist, force=outputs.force)
    outputs.discard_reports()
    write_text(gist.card(), outputs.card_text, force=outputs.force)
    card = json.dumps(gist.card_dict(), indent=2)
    write_text(card, outputs.card_json, force=outputs.force)


def synthesize_into(
    outputs: Outputs,
    gist: Gist,
    *,
    training: Training,
    bar: TrainingBar,
    rows: int | None,
    device: str,
    seed: int,
) -> pa.Table:
    """Train, sample and draw into a folder; return the rows.

    Privacy: post-processing of the gist; no private row is in reach.
    """
    with bar() as progress:
        model = workflow.train(gist, training, seed=seed, device=device, progress=progress)
    model.save(outputs.model, force=outputs.force)
    table = model.sample(rows or workflow.default_rows(gist), seed=seed, kind="pyarrow")
    write_table(table, outputs.rows, gist.schema, force=outputs.force)
    _draw(gist, model, table, outputs)
    return table


def model_card(model: Model) -> dict[str, Any]:
    """The card of the gist a model was trained from, and how it was trained.

    Privacy: a function of a release.
    """
    chosen = {name: value for name, value in model.training.items() if value is not None}
    settings = ", ".join(f"{name}={value}" for name, value in chosen.items())
    lines = [f"trained with {settings}", f"{len(model.losses)} steps"]
    if model.losses:
        lines[-1] += f", last loss {model.losses[-1]:.3g}"
    return {**model.gist_header["card"], "model": lines}


def _draw(gist: Gist, model: Model, table: pa.Table, outputs: Outputs) -> None:
    title = f"{gist.schema.name}, synthetic"
    if outputs.images:
        arrays = image_arrays(table, gist.schema)
        images = plots.images_figure(arrays["x"], arrays.get("y"), title=title)
        plots.write_png(images, outputs.plot("images"), force=outputs.force)
    else:
        columns = plots.columns_figure(gist.schema, table, title=title)
        plots.write_png(columns, outputs.plot("columns"), force=outputs.force)
    loss = plots.loss_figure(model.losses, steps=len(model.losses))
    plots.write_png(loss, outputs.plot("loss"), force=outputs.force)

"""Reading back the folder that ``dpgist synthesize`` or ``dpgist demo`` wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpgist.encode import Encoder
from dpgist.errors import DataError, PrivacyError
from dpgist.generators.model import Model, read_model
from dpgist.gist import Gist, read_gist
from dpgist.outputs import Outputs
from dpgist.pixels import image_arrays
from dpgist.privacy.ledger import Ledger
from dpgist.schema import Schema
from dpgist.sources import open_source
from dpgist.sources.array_file import npz_arrays
from dpgist.sources.damage import damage_reported
from dpgist.sources.images import NamedImages

LEDGER = "ledger.sqlite"


@dataclass(frozen=True, kw_only=True)
class Folder:
    """What lies in the folder; all but the gist may be missing.

    Privacy: a release and what was made from it.
    """

    path: Path
    gist: Gist
    model: Model | None
    rows: pa.Table | None
    ledger: Ledger | None

    @property
    def rows_path(self) -> Path:
        """Where the synthetic rows are, or would be."""
        return _outputs(self.path, self.gist.schema).rows

    @property
    def images(self) -> dict[str, npt.NDArray[Any]]:
        """The synthetic images as ``x`` and ``y``; empty for tables."""
        if self.rows is None or self.gist.schema.image is None:
            return {}
        return image_arrays(self.rows, self.gist.schema)


def read_folder(path: Path, *, ledger: Path | None = None) -> Folder:
    """Read gist, model, synthetic rows and ledger, and check that they belong together.

    Privacy: reads artefacts; the synthetic rows are taken to be what the model drew.
    """
    outputs = Outputs(folder=path)
    if not outputs.gist.is_file():
        raise DataError(
            f"there is no {outputs.gist.name} in {path}; name a folder that dpgist synthesize wrote"
        )
    gist = read_gist(outputs.gist)
    model = read_model(outputs.model) if outputs.model.is_file() else None
    if model is not None and model.gist_header["ledger"] != asdict(gist.ledger):
        raise DataError(f"{outputs.model} was not trained from {outputs.gist}")
    return Folder(
        path=path,
        gist=gist,
        model=model,
        rows=_rows(path, gist.schema),
        ledger=_ledger(path / LEDGER, ledger, gist),
    )


def _outputs(folder: Path, schema: Schema) -> Outputs:
    return Outputs(folder=folder, images=schema.image is not None)


def _rows(folder: Path, schema: Schema) -> pa.Table | None:
    """The rows that synthesize wrote: parquet for tables, npz for images."""
    path = _outputs(folder, schema).rows
    if not path.is_file():
        return None
    _check_header(path, schema)
    types = _drawn_types(schema)
    with damage_reported(path):
        parts = _npz(path, schema) if schema.image else _parquet(path, schema)
        return pa.concat_tables([types.empty_table(), *(part.cast(types) for part in parts)])


def _check_header(path: Path, schema: Schema) -> None:
    """Refuse rows whose columns, types or image size are not those of the gist's schema."""
    try:
        open_source(path).check(schema)
    except DataError as error:
        words = str(error)
        raise DataError(words if str(path) in words else f"{path}: {words}") from None


def _drawn_types(schema: Schema) -> pa.Schema:
    """The types of rows as a generator draws them, which the figures rely on."""
    encoder = Encoder(schema)
    return encoder.decode(np.zeros((0, encoder.width)), np.zeros(0, np.int64)).schema


def _parquet(path: Path, schema: Schema) -> Iterator[pa.Table]:
    names = [column.name for column in schema.columns]
    with pq.ParquetFile(path) as file:
        rows = file.read(names)
    rows.validate(full=True)  # text that is none, say, would stop a figure half-way
    yield rows.select(names)


def _npz(path: Path, schema: Schema) -> Iterator[pa.Table]:
    """Images and labels; a label without text stands for null, which arrays do not know."""
    named = NamedImages(reader=npz_arrays(path), schema=schema)
    for part in named.tables(tuple(column.name for column in schema.columns)):
        if schema.label is None:
            yield part
        else:
            texts = part[schema.label]
            labels = pc.if_else(pc.equal(texts, ""), None, texts)
            yield part.set_column(part.column_names.index(schema.label), schema.label, labels)


def _ledger(own: Path, named: Path | None, gist: Gist) -> Ledger | None:
    if named is None and not own.is_file():
        return None
    book = Ledger.open(named or own)
    if book.ledger_id != gist.ledger.ledger_id:
        raise PrivacyError(
            f"{named or own} is not the ledger that release.gist was charged to; name the right"
            " one with --ledger"
        )
    return book

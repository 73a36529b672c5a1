"""Reading back the folder that ``dpgist synthesize`` or ``dpgist demo`` wrote."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from dpgist.errors import DataError, PrivacyError
from dpgist.generators.model import Model, read_model
from dpgist.gist import Gist, read_gist
from dpgist.outputs import Outputs
from dpgist.pixels import image_arrays, raw_images
from dpgist.privacy.ledger import Ledger
from dpgist.schema import Schema

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
    try:
        rows = _npz(path, schema) if schema.image else pa.parquet.read_table(path)
    except (pa.ArrowInvalid, ValueError, KeyError) as error:
        raise DataError(f"{path} cannot be read as synthetic rows of this schema") from error
    if [*rows.column_names] != [column.name for column in schema.columns]:
        raise DataError(f"{path} does not have the columns of the gist's schema")
    return rows


def _npz(path: Path, schema: Schema) -> pa.Table:
    image = schema.image
    if image is None:
        raise ValueError("the schema declares no image column")
    with np.load(path, allow_pickle=False) as arrays:
        pixels = np.asarray(arrays["x"], dtype=np.uint8).reshape(len(arrays["x"]), image.n_values)
        columns: dict[str, Any] = {image.name: raw_images(pixels)}
        if schema.label is not None:
            texts = np.char.lower(arrays["y"].astype(str)) if arrays["y"].dtype == bool else None
            labels = arrays["y"].astype(str) if texts is None else texts
            columns[schema.label] = pa.array([text or None for text in labels.tolist()])
    return pa.table({column.name: columns[column.name] for column in schema.columns})


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

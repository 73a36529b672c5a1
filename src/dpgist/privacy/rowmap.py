"""Row-wise means bit for bit: how a feature map is run so that one row cannot move another.

A float32 matrix product may round a row differently in another slot of the block or in a block of
another size. So maps see blocks of one fixed shape only, and before anything is charged every
slot is tested to give the same integers for the same row (in float32, else in float64, else the
release is refused).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from dpgist.errors import PrivacyError
from dpgist.privacy.lattice import check_grid, to_grid
from dpgist.privacy.plan import Block, Query

_CELLS_PER_BLOCK = 5 * 2**19  # features held at once: 10 MB in float32
_TEST_SEED = 20_210  # public: the rows of the self-test


def block_rows(blocks: Sequence[Block]) -> int:
    """Rows per block: a power of two from 128 to 1024, by the number of coordinates alone.

    Privacy: public; the same for every table.
    """
    length = sum(block.length for block in blocks)
    return int(min(1024, max(128, 2 ** int(np.log2(_CELLS_PER_BLOCK / length)))))


class RowByRow(nn.Module):
    """Any module on a single row, run over a block under vmap.

    vmap shows the module one row at a time, so statistics over the block cannot exist; a module
    that draws random numbers is refused.

    Privacy: makes a foreign map row-wise; that it does no I/O, keeps no Python state and raises for
    no row is trusted. (An error would end the pass, and show that there is such a row.)
    """

    def __init__(self, single_row_map: nn.Module) -> None:
        super().__init__()
        self.single_row_map = single_row_map

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        dtype = next((p.dtype for p in _state(self) if p.is_floating_point()), rows.dtype)
        mapped = torch.func.vmap(self.single_row_map, randomness="error")(rows.to(dtype))
        return mapped if isinstance(mapped, tuple) else (mapped,)


class PreparedMap:
    """A query's map, frozen and tested, from padded encoded rows to grid integers."""

    def __init__(self, query: Query, *, rows_about: int | None = None) -> None:
        self._blocks = query.blocks
        self.block_rows = block_rows(query.blocks)
        for block in query.blocks:
            check_grid(block, self.block_rows, rows_about)
        batched = query.row_map if query.batched else RowByRow(query.row_map)
        self._map = batched.eval().requires_grad_(False)
        self._width = query.encoder.width
        self._fingerprint = fingerprint(self._map)
        self._choose_precision()

    def __call__(self, rows: torch.Tensor) -> list[torch.Tensor]:
        """Grid integers of every block for ``block_rows`` encoded rows."""
        with torch.no_grad():
            features = self._map(rows)
        return [to_grid(part, block) for part, block in zip(features, self._blocks, strict=True)]

    @property
    def n_bytes(self) -> int:
        """The size of the map's own numbers."""
        return sum(tensor.numel() * tensor.element_size() for tensor in _state(self._map))

    def check_unchanged(self) -> None:
        """Refuse a map whose parameters or buffers moved while it ran."""
        if fingerprint(self._map) != self._fingerprint:
            raise PrivacyError("the feature map changes its own parameters or buffers; refused")

    def _choose_precision(self) -> None:
        """Stay in the map's own precision if it is row-wise there, else try float64."""
        rng = np.random.Generator(np.random.Philox(_TEST_SEED))
        rows = torch.from_numpy(rng.random((self.block_rows, self._width)))
        rows[1::4] = rows[1::4].round()  # the ends of a range, and categories, are 0 and 1
        self._check_shapes(rows)
        row_wise = self._same_in_every_slot(rows)
        self.check_unchanged()
        if row_wise:
            return
        self._map = self._map.double()
        self._fingerprint = fingerprint(self._map)
        if not self._same_in_every_slot(rows):
            raise PrivacyError(
                "the feature map gives a row other numbers in another slot of the block, even in "
                "float64; it is not row-wise on this machine, so nothing was read or charged"
            )

    def _check_shapes(self, rows: torch.Tensor) -> None:
        """Run the map once on made-up rows; whatever it does wrong may be told."""
        try:
            with torch.no_grad():
                features = self._map(rows)
        except Exception as error:
            raise PrivacyError(f"the feature map cannot be run on made-up rows: {error}") from error
        shapes = [tuple(part.shape) for part in features]
        wanted = [(self.block_rows, block.length) for block in self._blocks]
        if shapes != wanted or not all(part.is_floating_point() for part in features):
            raise PrivacyError(f"the feature map fills {shapes}, the query declares {wanted}")

    def _same_in_every_slot(self, rows: torch.Tensor) -> bool:
        """Each row in three slots with other neighbours, and two rows in all slots at once."""
        expected = self(rows)
        moved = all(
            torch.equal(torch.roll(part, shift, dims=0), again)
            for shift in (1, len(rows) // 2 + 1)
            for part, again in zip(expected, self(torch.roll(rows, shift, dims=0)), strict=True)
        )
        alone = all(
            torch.equal(part[slot].expand_as(again), again)
            for slot in (0, len(rows) - 1)
            for part, again in zip(expected, self(rows[slot].repeat(len(rows), 1)), strict=True)
        )
        return moved and alone


def fingerprint(module: nn.Module) -> str:
    """SHA-256 of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for tensor in _state(module):
        digest.update(
            tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        )
    return digest.hexdigest()


def _state(module: nn.Module) -> list[torch.Tensor]:
    return [*module.parameters(), *module.buffers()]

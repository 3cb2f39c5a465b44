"""Features in a file without a name, which is gone when the process ends, however it ends.

Arrays are written to and read from places in the file, never mapped: what is read is in the caller's arrays and
nowhere else in the memory of the process. A full disk raises OSError when the file is made, before any work. The
file holds one tile (capacity, rows) after the other. So the first k columns of some rows are one contiguous run,
which a growing basis reads back and adds to, and a pass reads each tile in one go. Tiles are read into buffers that
are used again, one for each thread that reads: resident memory stays what it was.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from kernelfields.basis.panel import Columns, PanelCholesky
from kernelfields.basis.subspace import PivotSubspace
from kernelfields.numerics.sparse_rows import Rows
from kernelfields.numerics.threads import Workers, blas_threads
from kernelfields.objective.designs.tiles import TiledFeatures, tile_rows, tiles_of

Folder: TypeAlias = str | os.PathLike[str] | None


class UnnamedFile:
    """A file of ``size`` bytes in ``folder``, or where the system keeps temporary files."""

    def __init__(self, size: int, folder: Folder = None):
        self._file = tempfile.TemporaryFile(dir=folder, prefix="kernelfields-", buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self.descriptor, 0, max(1, size))
            else:
                self._file.truncate(size)
        except OSError as error:
            self._file.close()
            where = tempfile.gettempdir() if folder is None else folder
            raise OSError(
                error.errno, f"no room for {size / 2**30:,.1f} GiB of features in {where}: {error.strerror}"
            ) from error

    @property
    def descriptor(self) -> int:
        """The system's number of the file; ValueError once it is closed, when the number may be another file's."""
        return self._file.fileno()

    def close(self) -> None:
        """Give back the disk space."""
        self._file.close()

    def fetch_ahead(self, offset: int, size: int) -> None:
        """Ask the system to have some bytes ready soon, where it takes such wishes."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, offset, size, os.POSIX_FADV_WILLNEED)

    def read(self, array: np.ndarray, offset: int) -> None:
        """Fill a contiguous array with the bytes from ``offset`` on."""
        left = memoryview(array.data).cast("B") if array.size else memoryview(b"")
        while len(left):
            count = os.preadv(self.descriptor, [left], offset)
            if count == 0:
                raise OSError(f"a file of features ends at byte {offset}: it was cut short by someone else")
            left, offset = left[count:], offset + count

    def write(self, array: np.ndarray, offset: int) -> None:
        """Write the bytes of a contiguous array to the place from ``offset`` on."""
        left = memoryview(array.data).cast("B") if array.size else memoryview(b"")
        while len(left):
            count = os.pwrite(self.descriptor, left, offset)
            left, offset = left[count:], offset + count


class StoredFactor:
    """The leading (rank, rank) part of a lower factor in float64 whose rows are ``width`` long, in a file.

    ``factor[begin:end, :k]`` reads some rows, the same with ``=`` writes them, ``np.asarray(factor)`` reads all.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, file: UnnamedFile, width: int, rank: int):
        self.file = file
        self.width = width
        self.shape = (rank, rank)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: tuple[slice, slice]) -> np.ndarray:
        begin, end, _ = part[0].indices(len(self))
        rows = np.empty((end - begin, self.width))
        self.file.read(rows, 8 * self.width * begin)
        return rows[:, part[1]]

    def __setitem__(self, part: tuple[slice, slice], values: np.ndarray) -> None:
        begin, end, _ = part[0].indices(len(self))
        rows = np.zeros((end - begin, self.width))
        rows[:, part[1]] = values
        self.file.write(rows, 8 * self.width * begin)

    def mapped(self) -> np.ndarray:
        """Return the factor as a read-only array whose pages the system reads when they are used.

        A fitted field keeps this one: it is used rarely, and gives its memory back when others need it.
        """
        pages = mmap.mmap(self.file.descriptor, 8 * self.width * len(self), access=mmap.ACCESS_READ)
        rows = np.frombuffer(pages, dtype=np.float64).reshape(len(self), self.width)
        return rows[:, : len(self)]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        factor = np.zeros(self.shape, dtype=dtype or self.dtype)
        for row in range(len(self)):  # one by one, so that the upper half of the array takes no memory
            part = np.empty(row + 1)
            self.file.read(part, 8 * self.width * row)
            factor[row, : row + 1] = part
        return factor


#: Bytes, at eight a value, of the new columns that are computed at once.
BLOCK_BYTES = 8 * 2**20


class FeatureFile(Columns):
    """The columns of a panel in a file without a name, in ``folder`` or where the system keeps temporary files.

    Tile i holds (capacity, rows) values. With ``stored_factor`` the pivots' own rows are kept in a file, too.
    ``n_threads`` (None: all cores) add columns.
    """

    def __init__(
        self,
        n_rows: int,
        capacity: int,
        dtype: DTypeLike,
        folder: Folder = None,
        *,
        stored_factor: bool = False,
        n_threads: int | None = None,
        tile_bytes: int | None = None,
    ):
        super().__init__(n_rows, capacity, dtype)
        self.rows_per_tile = tile_rows(n_rows, capacity, self.dtype.itemsize, tile_bytes)
        self._folder = folder
        self._stored_factor = stored_factor
        self._workers = Workers(n_threads)
        self._buffers: list[np.ndarray] = []
        self._file = UnnamedFile(n_rows * capacity * self.dtype.itemsize, folder)

    def close(self) -> None:
        """Give back the disk space."""
        self._file.close()
        self._buffers.clear()

    def row_blocks(self, n_pivots: int) -> list[slice]:
        """Return runs of whole tiles."""
        n_tiles = max(1, BLOCK_BYTES // (8 * max(1, n_pivots) * self.rows_per_tile))
        return tiles_of(self.n_rows, n_tiles * self.rows_per_tile)

    def multiplier(self, panel: PanelCholesky, wide_features: np.ndarray) -> Callable[[slice], np.ndarray]:
        """Return the function rows -> Z_rows W^T; tiles are shared out among threads of ours, not of BLAS."""
        narrow = np.ascontiguousarray(wide_features.T, dtype=self.dtype)
        features = StoredFeatures(self, len(narrow))

        def product(rows: slice) -> np.ndarray:
            values = np.empty((rows.stop - rows.start, narrow.shape[1]), dtype=self.dtype)

            def run(first: int, last: int) -> None:
                for span, tile in features.read(first, last):
                    np.matmul(tile.T, narrow, out=values[span.start - rows.start : span.stop - rows.start])

            first, last = rows.start // self.rows_per_tile, -(-rows.stop // self.rows_per_tile)
            pieces = self._workers.pieces(last - first, values.size * len(narrow))
            with blas_threads(1):
                self._workers.each(run, [(first + begin, first + end) for begin, end in pieces])
            return values

        return product

    def borrow(self) -> np.ndarray:
        """Return a buffer for one tile; give it back by :meth:`give_back`."""
        try:
            return self._buffers.pop()
        except IndexError:
            return np.empty(self.capacity * self.rows_per_tile, dtype=self.dtype)

    def give_back(self, buffer: np.ndarray) -> None:
        """Take a buffer back for the next reader."""
        self._buffers.append(buffer)

    def load(self, rows: slice, rank: int, buffer: np.ndarray) -> np.ndarray:
        """Return the first columns of a tile, (rank, rows), read into ``buffer``; fetch the next tile ahead."""
        n_rows = rows.stop - rows.start
        tile = buffer[: rank * n_rows]
        self._file.fetch_ahead(self._offset(rows.stop), tile.nbytes)
        self._file.read(tile, self._offset(rows.start))
        return tile.reshape(rank, n_rows)

    def write(self, rows: slice, begin: int, values: np.ndarray) -> None:
        """Write (rows, k) values into the columns from ``begin`` on of some tiles."""
        for part in tiles_of(len(values), self.rows_per_tile):
            offset = self._offset(rows.start + part.start) + begin * (part.stop - part.start) * self.dtype.itemsize
            self._file.write(np.ascontiguousarray(values[part].T, dtype=self.dtype), offset)

    def _offset(self, row: int) -> int:
        return row * self.capacity * self.dtype.itemsize

    def features(self, panel: PanelCholesky) -> TiledFeatures:
        """Return the features so far."""
        return StoredFeatures(self, panel.rank)

    def filled(self, subspace: PivotSubspace, inputs: Rows) -> StoredFeatures:
        """Return the features of inputs in a subspace that is there already, all columns at once."""
        for rows in tiles_of(self.n_rows, self.rows_per_tile):
            self.write(rows, 0, subspace.features(inputs[rows], self.dtype))
        return StoredFeatures(self, self.capacity)

    def factor(self) -> np.ndarray | StoredFactor:
        """Return room for the pivots' own rows, in a file or in memory."""
        if not self._stored_factor:
            return super().factor()
        return StoredFactor(UnnamedFile(8 * self.capacity**2, self._folder), self.capacity, self.capacity)

    def leading(self, factor: np.ndarray | StoredFactor, rank: int) -> np.ndarray | StoredFactor:
        """Return the leading part of the factor."""
        if isinstance(factor, StoredFactor):
            return StoredFactor(factor.file, factor.width, rank)
        return super().leading(factor, rank)


class StoredFeatures(TiledFeatures):
    """The first ``rank`` columns of a file."""

    def __init__(self, file: FeatureFile, rank: int):
        super().__init__((file.n_rows, rank), file.dtype, file.rows_per_tile)
        self.file = file

    def read(self, first: int, last: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and transposed features of some tiles."""
        buffer = self.file.borrow()
        try:
            for rows in self.tiles[first:last]:
                yield rows, self.file.load(rows, self.shape[1], buffer)
        finally:
            self.file.give_back(buffer)

"""Whether a Parquet file may be read: its sizes and counts, checked before a reader reserves memory by them.

A file of a few kilobytes can declare rows and pages that fill any memory. Here the metadata and every page header are
decoded with bounds (the compact protocol of Thrift, parquet.thrift), and nothing is reserved by what they declare. What
passes is a flat table with the codecs and encodings that the instruments write, whose pages together are as large as
its rows allow.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from vtare.stored.paths import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_MAGIC: Final = b"PAR1"
#: The metadata of a file: a footer of at most 4 MiB, and some 200 B for each column of each row group.
MOST_METADATA_BYTE: Final = 8 << 20
_MOST_HEADER_BYTE: Final = 1 << 16
_MOST_DEPTH: Final = 16
_MOST_COLUMNS: Final = 64
#: Some 50 values for each column of each row group: of 32 columns and 65,536 rows a group, 80 million rows.
_MOST_VALUES: Final = 2_000_000
#: A page of the instruments holds 20,000 values, a dictionary besides; fewer only where a page is full before.
_PAGE_ROWS: Final = 1_000
#: uncompressed, Snappy, Zstandard, LZ4_RAW.
_CODECS: Final = frozenset({0, 1, 6, 7})
#: PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED (levels), DELTA_BINARY_PACKED, RLE_DICTIONARY. No strings by their prefixes:
#: a page of those can unfold to a thousand times its size.
_ENCODINGS: Final = frozenset({0, 2, 3, 4, 5, 8})
#: A value in a page: 64 bits, or a text of some words; and what a page has besides its values.
_VALUE_BYTE: Final = 64
_PAGE_BYTE: Final = 1 << 21
#: The type of a column of texts.
_BYTE_ARRAY: Final = 6
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 1, 2, 3


class BadParquet(ValueError):
    """A file is no Parquet file that may be read. The message is one line."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a file that may be read holds: its rows, its columns, and its key-value metadata."""

    rows: int
    columns: tuple[str, ...]
    metadata: dict[str, bytes]


def check(path: Path, *, most_rows: int, texts: bool = True) -> Shape:
    """Check metadata and page headers of a file, which has at most `most_rows` rows, and the length of its `texts`.

    Raises:
        BadParquet: it is damaged, is no flat table, or declares more than such a file can hold.
        OSError: it cannot be read, or is no regular file.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        shape, columns = _checked(file, os.fstat(file.fileno()).st_size, most_rows)
        if texts and columns and shape.rows:
            file.seek(0)
            _check_texts(file, columns, shape.rows)
    return shape


def _check_texts(file: BinaryIO, columns: Sequence[str], rows: int) -> None:
    """Refuse texts that are short in the file only: one entry of a dictionary stands for any number of rows.

    Readers keep such rows as views of one text, and unfold them where they group or sort.
    """
    import polars as pl

    sums = [pl.col(name).cast(pl.String).str.len_bytes().cast(pl.UInt64).sum() for name in columns]
    try:
        unfolded = pl.read_parquet(file, columns=[*columns]).select(sums).row(0)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise BadParquet(f"texts that cannot be read ({error})") from error
    for name, byte in zip(columns, unfolded, strict=True):
        if byte > (allowed := _PAGE_BYTE + rows * _VALUE_BYTE):
            raise BadParquet(f"{byte} B of texts in '{name}' once they are unfolded, {allowed} B are allowed")


def _checked(file: BinaryIO, size: int, most_rows: int) -> tuple[Shape, list[str]]:
    """What the file holds, and its columns of texts."""
    if size < 3 * len(_MAGIC) or file.read(len(_MAGIC)) != _MAGIC:
        raise BadParquet("not a Parquet file")
    file.seek(size - 8)
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC:
        raise BadParquet("a Parquet file without its end")
    if length > min(MOST_METADATA_BYTE, size - 12):
        raise BadParquet(f"{length} B of metadata in a file of {size} B, {MOST_METADATA_BYTE} B are allowed")
    file.seek(size - 8 - length)
    about = _Thrift(file.read(length)).struct()
    columns = _columns(_list(about, 2))
    rows = _number(about, 3)
    if rows > most_rows:
        raise BadParquet(f"{rows} rows, {most_rows} are the most that this run can produce")
    counted = 0
    for group in _list(about, 4):
        in_group = _number(group, 3)
        counted += in_group
        chunks = _list(group, 1)
        if in_group < 1 or counted > rows or len(chunks) != len(columns):
            raise BadParquet(f"a row group of {in_group} rows and {len(chunks)} columns in a table of {rows} rows and "
                             f"{len(columns)} columns")  # fmt: skip
        for chunk in chunks:
            _check_chunk(file, size, chunk, in_group)
    if counted != rows:
        raise BadParquet(f"row groups of {counted} rows in a table of {rows}")
    pairs = list(_pairs(about))
    if len(pairs) != len(dict(pairs)):
        raise BadParquet("key-value metadata with the same key twice")
    texts = [name for name, leaf in zip(columns, _list(about, 2)[1:], strict=True) if leaf.get(1) == _BYTE_ARRAY]
    return Shape(rows, columns, dict(pairs)), texts


def _columns(schema: list[Any]) -> tuple[str, ...]:
    """The names of a flat table's columns: the root and behind it its leaves, none of them repeated."""
    names = tuple(_bytes(leaf, 4).decode(errors="replace") for leaf in schema[1:])
    if not names or len(names) > _MOST_COLUMNS or len(set(names)) != len(names):
        raise BadParquet(f"a table of {len(names)} columns, not of 1 to {_MOST_COLUMNS} with different names")
    if _number(schema[0], 5) != len(names) or any(
        5 in leaf or 1 not in leaf or _number(leaf, 3) not in {0, 1} for leaf in schema[1:]
    ):
        raise BadParquet("nested columns, not a flat table")
    return names


def _check_chunk(file: BinaryIO, size: int, chunk: Any, rows: int) -> None:
    about = chunk.get(3) if isinstance(chunk, dict) else None
    if not isinstance(about, dict) or 1 in chunk:
        raise BadParquet("a column with pages outside the file")
    codec, values = _number(about, 4), _number(about, 5)
    if codec not in _CODECS or not set(_list(about, 2)) <= _ENCODINGS:
        raise BadParquet(f"codec {codec} and encodings {_list(about, 2)[:8]}, not those that vtare writes")
    if values != rows:
        raise BadParquet(f"a column of {values} values in a row group of {rows} rows")
    first = min(_number(about, 9), _number(about, 11) if 11 in about else size)
    end = first + _number(about, 7)
    if not len(_MAGIC) <= first <= end <= size:
        raise BadParquet(f"a column at bytes {first} to {end} of a file of {size} B")
    allowed = _PAGE_BYTE + rows * _VALUE_BYTE
    found_values = found_byte = pages = 0
    place = first
    while found_values < values:
        pages += 1
        if place >= end or pages > 3 + values // _PAGE_ROWS:
            raise BadParquet(f"{pages - 1} pages of {found_values} values in a column of {values}")
        file.seek(place)
        thrift = _Thrift(file.read(min(_MOST_HEADER_BYTE, end - place)))
        page = thrift.struct()
        packed, unpacked = _number(page, 3), _number(page, 2)
        in_page = _check_page(page)
        found_values += in_page
        found_byte += unpacked
        place += thrift.at + packed
        if unpacked < 0 or packed < 0 or place > end or found_byte > allowed or found_values > values:
            raise BadParquet(
                f"pages of {found_values} values and {found_byte} B in a column of {values} values and at most "
                f"{allowed} B"
            )


def _check_page(page: dict[int, Any]) -> int:
    """The values of a page, of which none are in a dictionary."""
    kind = _number(page, 1)
    part = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}.get(kind)
    header = page.get(part) if part is not None else None
    if not isinstance(header, dict):
        raise BadParquet(f"a page of kind {kind}, neither data nor a dictionary")
    encoding = _number(header, 4 if kind == _DATA_PAGE_V2 else 2)
    count = _number(header, 1)
    if encoding not in _ENCODINGS or count < 0:
        raise BadParquet(f"a page of {count} values in encoding {encoding}, which vtare does not write")
    if kind == _DICTIONARY_PAGE:
        if count * 4 > max(0, _number(page, 2)):
            raise BadParquet(f"a dictionary of {count} entries in {_number(page, 2)} B")
        return 0
    if count == 0:
        raise BadParquet("a page without values")
    return count


def _pairs(about: dict[int, Any]) -> Iterator[tuple[str, bytes]]:
    for pair in about.get(5, []):
        if not isinstance(pair, dict):
            raise BadParquet("damaged metadata")
        yield _bytes(pair, 1).decode(errors="replace"), _bytes(pair, 2)


def _number(struct: Any, field: int) -> int:
    number = struct.get(field) if isinstance(struct, dict) else None
    if not isinstance(number, int):
        raise BadParquet("damaged metadata")
    return number


def _bytes(struct: Any, field: int) -> bytes:
    content = struct.get(field) if isinstance(struct, dict) else None
    if not isinstance(content, bytes):
        raise BadParquet("damaged metadata")
    return content


def _list(struct: Any, field: int) -> list[Any]:
    items = struct.get(field) if isinstance(struct, dict) else None
    if not isinstance(items, list):
        raise BadParquet("damaged metadata")
    return items


class _Thrift:
    """A decoder of Thrift's compact protocol: fields by their number, of which the last one counts."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = _MOST_VALUES
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > _MOST_DEPTH:
            raise BadParquet(f"metadata nested deeper than {_MOST_DEPTH}")
        fields: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            fields[field] = self._value(head & 15, depth, in_list=False)
        return fields

    def _value(self, kind: int, depth: int, *, in_list: bool) -> Any:
        self._left -= 1
        if self._left < 0:
            raise BadParquet(f"metadata of more than {_MOST_VALUES} values")
        if kind in {1, 2}:
            # In a list each truth value is a byte, in a struct it is the kind itself.
            return self._byte() == 1 if in_list else kind == 1
        if kind == 3:
            return self._byte()
        if kind in {4, 5, 6}:
            return self._zigzag()
        if kind == 7:
            return self._take(8)
        if kind == 8:
            return self._take(self._varint())
        if kind in {9, 10}:
            return self._many(depth)
        if kind == 12:
            return self.struct(depth + 1)
        raise BadParquet(f"metadata of kind {kind}, which Parquet does not use")

    def _many(self, depth: int) -> list[Any]:
        head = self._byte()
        count = head >> 4 if head >> 4 != 15 else self._varint()
        # Each entry takes a byte at least.
        if count > len(self._data) - self.at or depth > _MOST_DEPTH:
            raise BadParquet(f"a list of {count} entries in {len(self._data) - self.at} B of metadata")
        return [self._value(head & 15, depth + 1, in_list=True) for _ in range(count)]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, count: int) -> bytes:
        taken = self._data[self.at : self.at + count]
        if len(taken) != count:
            raise BadParquet("metadata that is cut off")
        self.at += count
        return taken

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise BadParquet("a number of more than 64 bits in the metadata")

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

"""Compiled loops of names.py: names are separated, hashed, found and added.

A text is a row of names, each with a zero byte after it. Name k is text[starts[k]:stops[k]]; the name of column c
is names[begins[c]:begins[c + 1] - 1]. A slot of the hash table is zero where it is free, else it holds the upper
half of the name's hash and, in its lower half, the column plus one. A collision moves on to the next slot.

Bytes are read eight at a time, so a text needs seven more of them after the last zero.
"""

from __future__ import annotations

import numpy as np

from kernelfields.numerics.compiled import njit

# Numba turns a sum of signed and unsigned integers into a float, so everything beside a hash is unsigned.
_U = np.uint64
_1, _2, _3, _4, _5, _6, _7, _8 = (_U(byte) for byte in range(1, 9))
_UPPER, _LOWER = _U(32), _U(0xFFFFFFFF)
_ODD = _U(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: a product with it spreads over all bits
_LOW_BITS, _SEVEN_BITS = _U(0x0101010101010101), _U(0x7F7F7F7F7F7F7F7F)  # of each byte


@njit(nogil=True, cache=True)
def _word(text, at):
    """Load eight bytes at the index ``at``."""
    return (
        _U(text[at])
        | _U(text[at + _1]) << _U(8)
        | _U(text[at + _2]) << _U(16)
        | _U(text[at + _3]) << _U(24)
        | _U(text[at + _4]) << _U(32)
        | _U(text[at + _5]) << _U(40)
        | _U(text[at + _6]) << _U(48)
        | _U(text[at + _7]) << _U(56)
    )


@njit(nogil=True, cache=True)
def _zero_bytes(word):
    """Set the high bit of every byte that is zero."""
    return ~((word & _SEVEN_BITS) + _SEVEN_BITS | word | _SEVEN_BITS)


@njit(nogil=True, cache=True)
def scan(text, starts, stops, hashes):
    """Write starts and hashes of the names of a text, until the arrays are full."""
    at = _U(0)
    for k in range(starts.size):
        starts[k] = np.int64(at)
        value = _ODD
        word = _word(text, at)
        zeros = _zero_bytes(word)
        while zeros == _U(0):
            value = (value ^ word) * _ODD
            value ^= value >> _UPPER
            at += _8
            word = _word(text, at)
            zeros = _zero_bytes(word)
        # All bits below the first zero byte; the product adds up one for each byte of them.
        below = ((zeros & (~zeros + _1)) >> _7) - _1
        value = (value ^ (word & below)) * _ODD
        value ^= value >> _UPPER
        at += (below & _LOW_BITS) * _LOW_BITS >> _U(56)
        stops[k] = np.int64(at)
        hashes[k] = value
        at += _1


@njit(nogil=True, cache=True)
def _is_equal(text, start, stop, names, begin, end):
    """Whether text[start:stop] equals names[begin:end]."""
    if stop - start != end - begin:
        return False
    at, last, own = _U(start), _U(stop), _U(begin)
    while at + _8 <= last:
        if _word(text, at) != _word(names, own):
            return False
        at += _8
        own += _8
    if at < last:
        return (_word(text, at) ^ _word(names, own)) << (_U(64) - _8 * (last - at)) == _U(0)
    return True


@njit(nogil=True, cache=True)
def _find_column(text, start, stop, value, slots, names, begins):
    """Find the column of a name by its hash; -1 for an unknown name."""
    mask = _U(slots.size - 1)
    at = value & mask
    while slots[at] != _U(0):
        if slots[at] >> _UPPER == value >> _UPPER:
            column = np.int64(slots[at] & _LOWER) - 1
            if _is_equal(text, start, stop, names, begins[column], begins[column + 1] - 1):
                return column
        at = (at + _1) & mask
    return np.int64(-1)


@njit(nogil=True, cache=True)
def _enter(slots, value, column):
    mask = _U(slots.size - 1)
    at = value & mask
    while slots[at] != _U(0):
        at = (at + _1) & mask
    slots[at] = (value >> _UPPER) << _UPPER | _U(column + 1)


@njit(nogil=True, cache=True)
def enter_all(slots, hashes):
    """Enter the names of columns 0, 1, ... into free slots, a power of two of them."""
    for column in range(hashes.size):
        _enter(slots, hashes[column], column)


@njit(nogil=True, cache=True)
def find(text, starts, stops, hashes, slots, names, begins, columns):
    """Write the column of every name, -1 for unknown names.

    Two loops instead of one: within each, the names do not wait for each other's memory.
    """
    mask = _U(slots.size - 1)
    for k in range(starts.size):
        value = hashes[k]
        at = value & mask
        slot = slots[at]
        while slot != _U(0) and slot >> _UPPER != value >> _UPPER:
            at = (at + _1) & mask
            slot = slots[at]
        columns[k] = np.int64(slot & _LOWER) - 1
    for k in range(starts.size):
        column = columns[k]
        if column < 0:
            continue
        if not _is_equal(text, starts[k], stops[k], names, begins[column], begins[column + 1] - 1):
            columns[k] = _find_column(text, starts[k], stops[k], hashes[k], slots, names, begins)


@njit(nogil=True, cache=True)
def add_missing(text, starts, stops, hashes, slots, names, begins, count, columns):
    """Give new columns to names with column -1; return the new number of columns."""
    for k in range(starts.size):
        if columns[k] >= 0:
            continue
        start, stop = starts[k], stops[k]
        column = _find_column(text, start, stop, hashes[k], slots, names, begins)
        if column < 0:
            column = count
            begin = begins[count]
            for byte in range(stop - start):
                names[begin + byte] = text[start + byte]
            names[begin + stop - start] = 0
            begins[count + 1] = begin + stop - start + 1
            _enter(slots, hashes[k], column)
            count += 1
        columns[k] = column
    return count

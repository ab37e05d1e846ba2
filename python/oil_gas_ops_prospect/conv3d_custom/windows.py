# SPDX-License-Identifier: Apache-2.0
"""Parts of a tensor that is continued beyond its borders, and the adjoint of the continuation.

Positions count along a spatial axis of the tensor after `spread - 1` zeros were put between its elements; those below 0
and beyond the end belong to the padding. Padding modes are index maps on each axis. Nothing larger than the part that
was asked for is made."""

import torch
import torch.nn.functional as F

DENSE = (1, 1, 1)


def part(t, axis, first, end, step=1):
    """Every step-th element of [first, end) on an axis, as a view; t itself where that is all."""
    if (first, end, step) == (0, t.shape[axis], 1):
        return t
    return t[(slice(None),) * axis + (slice(first, end, step),)]


def _source(first, end, i, mode, device):
    """The element of an axis of extent i that each position of [first, end) shows."""
    at = torch.arange(first, end, device=device)
    if mode == "replicate":
        return at.clamp(0, i - 1)
    if mode == "circular":
        return at.remainder(i)
    at = at.abs()
    return torch.where(at >= i, 2 * (i - 1) - at, at)


def _cut(t, axis, first, end, s):
    """The elements of t at positions of [first, end), and the zeros that are missing before and after them."""
    begin, stop = max(0, -(-first // s)), min(t.shape[axis], -(-end // s))
    if begin >= stop:
        return part(t, axis, 0, 0), end - first, 0
    return part(t, axis, begin, stop), begin * s - first, end - (stop - 1) * s - 1


def _spread(t, spread):
    """t with spread - 1 zeros between its elements."""
    if spread == DENSE:
        return t
    out = t.new_zeros([*t.shape[:2], *((n - 1) * s + 1 for n, s in zip(t.shape[2:], spread))])
    out[..., :: spread[0], :: spread[1], :: spread[2]] = t
    return out


def read(t, spans, spread=DENSE, mode="zeros"):
    """Positions [first, end) of each spatial axis of t, as a tensor and the zeros (low, high) still to go around it."""
    lo, hi = [0, 0, 0], [0, 0, 0]
    for a, (first, end) in enumerate(spans):
        i = t.shape[2 + a]
        if mode == "zeros":
            t, lo[a], hi[a] = _cut(t, 2 + a, first, end, spread[a])
        elif first < 0 or end > i:
            t = t.index_select(2 + a, _source(first, end, i, mode, t.device))
        else:
            t = part(t, 2 + a, first, end)
    if 0 in t.shape[2:]:
        return t.new_zeros([*t.shape[:2], *(end - first for first, end in spans)]), [0, 0, 0], [0, 0, 0]
    return _spread(t, spread), lo, hi


def pad(t, lo, hi):
    """t with these zeros around it."""
    if not any(lo) and not any(hi):
        return t
    return F.pad(t, [n for p, q in reversed([*zip(lo, hi)]) for n in (p, q)])


def even(t, lo, hi, most):
    """t with zeros added until both sides of each axis lack the same, at most `most` (None: any); and how many."""
    if lo == hi and (most is None or max(lo) <= most):
        return t, lo
    both = [min(p, q) if most is None else min(p, q, most) for p, q in zip(lo, hi)]
    return pad(t, [p - n for p, n in zip(lo, both)], [q - n for q, n in zip(hi, both)]), both


# ---- the adjoint: slices, added in ascending order of positions, where index_add leaves the order to the device ----


def _runs(first, end, i, mode):
    """[first, end) cut where padding begins, and for circular at each period."""
    cuts = range(first - first % i, end, i) if mode == "circular" else (0, i)
    edges = [first, *(cut for cut in cuts if first < cut < end), end]
    return zip(edges, edges[1:])


def _laid(values, axis, first, i, mode):
    """The values of a run that begins at `first` as they lie on the axis of extent i that it shows, and where."""
    last = first + values.shape[axis] - 1
    if mode == "circular" or 0 <= first < i:
        return values, first % i
    if mode == "replicate":
        return values.sum(axis, keepdim=True), 0 if first < 0 else i - 1
    return values.flip(axis), -last if first < 0 else 2 * (i - 1) - last


def fold_into(target, piece, axis, first, mode):
    """Adds the gradient at positions [first, first + extent) of the padded axis to that of the axis which it shows."""
    i = target.shape[axis]
    for begin, end in _runs(first, first + piece.shape[axis], i, mode):
        values, at = _laid(part(piece, axis, begin - first, end - first), axis, begin, i, mode)
        part(target, axis, at, at + values.shape[axis]).add_(values)


def fold(piece, axis, first, i, mode):
    """The same as a tensor of extent i on that axis."""
    if first == 0 and piece.shape[axis] == i:
        return piece
    target = piece.new_zeros([*piece.shape[:axis], i, *piece.shape[axis + 1 :]])
    fold_into(target, piece, axis, first, mode)
    return target

# SPDX-License-Identifier: Apache-2.0
"""Problems from files: one a line in the text form of ogp/conv3d.h, what follows a # is a note.

A line that begins with `transposed` is a transposed layer, its words those of the layer itself: ci and i of its input,
co of its output. p is its padding on both sides; a q below p is the output padding p - q."""

import shared  # noqa: F401, isort: skip

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import bench_perf
import torch
from patterns import Pattern
from torch import nn

from oil_gas_ops_prospect import _core
from oil_gas_ops_prospect.conv3d_custom import Conv3d, ConvTranspose3d
from oil_gas_ops_prospect.conv3d_custom.problem import PADDING_MODES

DTYPES = {"f32": torch.float32, "f64": torch.float64}
_LAYOUTS = ("xndhwc", "wndhwc", "yndhwc")
_PASS_WORDS = ("forward", "grad_input", "grad_weight", "grad_bias")
_CLASSES = {
    ("native", False): nn.Conv3d,
    ("native", True): nn.ConvTranspose3d,
    ("ours", False): Conv3d,
    ("ours", True): ConvTranspose3d,
}


@dataclass(frozen=True)
class Problem(Pattern):
    """A layer. name: its line without the note, the pass and the dtype."""

    note: str = ""
    dtype: str = "f32"
    transposed: bool = False
    output_padding: tuple[int, int, int] = (0, 0, 0)
    last: tuple[str, ...] = ()  # the tensors of ours, of "x", "w" and "y", that are laid out channels_last_3d

    @property
    def w_shape(self):
        if self.transposed:
            return (self.cin, self.cout // self.groups, *self.kernel)
        return super().w_shape

    @property
    def y_shape(self):
        if not self.transposed:
            return super().y_shape
        axes = zip((self.d, self.h, self.w), self.kernel, self.stride, self.padding, self.dilation, self.output_padding)
        return (self.n, self.cout, *((i - 1) * s - 2 * p + l * (k - 1) + 1 + more for i, k, s, p, l, more in axes))

    @cached_property
    def convolution(self):
        """The convolution whose passes do the work: this one, or the one that is transposed."""
        if not self.transposed:
            return self
        axes = self.kernel, self.stride, self.padding, self.dilation
        n, co, *extents = self.y_shape
        return Pattern(self.name, co, self.cin, *axes, self.groups, self.padding_mode, n, *extents)

    def module(self, kind):
        """The layer as a module of torch.nn or of ours. kind: 'native' or 'ours'."""
        more = {"output_padding": self.output_padding} if self.transposed else {}
        return _CLASSES[kind, self.transposed](
            self.cin, self.cout, self.kernel, self.stride, self.padding, dilation=self.dilation, groups=self.groups,
            padding_mode=self.padding_mode, dtype=DTYPES[self.dtype], **more,
        )  # fmt: skip

    def tensors(self, kind):
        """(module, x, gy): the same values for every kind."""
        torch.manual_seed(0)
        conv = self.module(kind)
        return conv, *(torch.randn(shape, dtype=DTYPES[self.dtype]) for shape in (self.x_shape, self.y_shape))

    # ---- what a pass costs, counted ----

    def core_pass(self, name):
        """The pass of `convolution` that is pass `name` of this layer."""
        return {"forward": "grad_input", "grad_input": "forward"}.get(name, name) if self.transposed else name

    def flops(self, name):
        return bench_perf.flops(self.convolution, self.core_pass(name))

    def bytes(self, name):
        return bench_perf.tensor_bytes(self.convolution, name, DTYPES[self.dtype].itemsize)

    def plans(self, name, threads):
        return bench_perf.plans(self.convolution, self.core_pass(name), threads, int(self.dtype == "f64"))


def _checked(problem):
    """problem, if torch makes a layer of it. Errors: those of torch."""
    with torch.device("meta"):
        y = problem.module("native")(torch.empty(problem.x_shape, dtype=DTYPES[problem.dtype]))
    if tuple(y.shape) != tuple(problem.y_shape):
        raise RuntimeError(f"expected output {problem.y_shape}, torch gives {tuple(y.shape)}")
    return problem


def _output_padding(pad_lo, pad_hi, stride, dilation, transposed):
    more = tuple(p - q for p, q in zip(pad_lo, pad_hi))
    if not transposed and any(more):
        raise RuntimeError(f"expected q equal to p, as in the modules that are compared, got p {pad_lo} and q {pad_hi}")
    if transposed and any(not 0 <= m < max(s, l) for m, s, l in zip(more, stride, dilation)):
        raise RuntimeError(f"transposed: expected p - q from 0 to below stride or dilation, got p {pad_lo}, q {pad_hi}")
    return more


def parse(text, dtype="f32"):
    """The Problem of a line. dtype: where the line names none. Errors: RuntimeError, ValueError."""
    words, _, note = text.partition("#")
    words = words.split()
    transposed = words[0] == "transposed"
    words = words[transposed:]
    geometry, code, x_shape, w_shape, _ = _core.parse(" ".join(words))
    stride, pad_lo, pad_hi, dilation, groups, mode, _ = geometry
    if min(x_shape) < 1 or w_shape[0] < 1:
        raise RuntimeError(f"expected extents and channels of 1 and more, got input {x_shape}, {w_shape[0]} outputs")
    shown = [word for word in words if word not in (*_PASS_WORDS, *DTYPES)]
    return _checked(
        Problem(
            name=" ".join(["transposed", *shown] if transposed else shown),
            note=note.strip(),
            dtype="f64" if code else dtype,
            cin=x_shape[1],
            cout=w_shape[0],
            kernel=w_shape[2:],
            stride=stride,
            padding=pad_lo,
            dilation=dilation,
            groups=groups,
            padding_mode=PADDING_MODES[mode],
            n=x_shape[0],
            d=x_shape[2],
            h=x_shape[3],
            w=x_shape[4],
            transposed=transposed,
            output_padding=_output_padding(pad_lo, pad_hi, stride, dilation, transposed),
            last=tuple(word[0] for word in _LAYOUTS if word in words),
        )
    )


def read(paths, dtype="f32"):
    """The problems of files, each once. Errors: ValueError that begins with FILE:LINE; OSError."""
    problems = {}
    for path in paths:
        for number, line in enumerate(Path(path).read_text().splitlines(), 1):
            if not line.partition("#")[0].strip():
                continue
            try:
                problem = parse(line, dtype)
            except (RuntimeError, ValueError, OverflowError) as error:
                raise ValueError(f"{path}:{number}: {str(error).splitlines()[0]}") from None
            problems.setdefault((problem.name, problem.dtype), problem)
    return list(problems.values())

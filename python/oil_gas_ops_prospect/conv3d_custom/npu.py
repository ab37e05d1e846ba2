# SPDX-License-Identifier: Apache-2.0
"""What the convolution operators of an NPU take: its limits as a table, and the load that each operator checks against
L1. Plain integers: nothing here needs the device, or torch.

The device lays a tensor out in blocks of C0 channels (16 of two bytes, 8 of four). Errors there come after the call,
from a queue, so whether an operator will refuse has to be known beforehand. The formulas are those of the host-side
tiling in the public operator sources (CANN ops-nn), read in November 2026."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one family of devices. Sizes in bytes, the rest in elements; kernels are height and width."""

    name: str
    l1: int
    block: int  # bytes of a channel block
    last_axis: int  # grad input
    taps: int  # forward: kernel height x width x C0
    kernel_forward: int
    kernel_grad_weight: int
    stride: int
    dilation: int
    padding: int


A2 = Limits(
    name="Ascend A2/A3",
    l1=524_288,
    block=32,
    last_axis=4096,
    taps=65_535,
    kernel_forward=511,
    kernel_grad_weight=255,
    stride=63,
    dilation=255,
    padding=255,
)

# By torch's device type. A device without a row has no limits that are known here.
LIMITS = {"npu": A2}


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution as an operator gets it. Channels are totals, triples (depth, height, width); i are the extents of
    the tensor itself, itemsize the bytes of an element."""

    n: int
    g: int
    ci: int
    co: int
    i: tuple[int, int, int]
    o: tuple[int, int, int]
    k: tuple[int, int, int]
    s: tuple[int, int, int]
    l: tuple[int, int, int]
    itemsize: int

    def window(self, axis):
        """The extent that the taps span."""
        return (self.k[axis] - 1) * self.l[axis] + 1


def c0(itemsize, limits):
    """Channels of a block."""
    return limits.block // itemsize


def forward_bytes(conv, width, limits):
    """The least load of the forward operator on `width` columns of its input."""
    return (conv.window(1) + conv.s[1]) * width * limits.block


def grad_weight_bytes(conv, width, limits):
    """The least load of the weight operator by the vendor's estimate; stride 1 could do with one row less."""
    return forward_bytes(conv, width, limits) * (1 if conv.itemsize == 2 else 2) + 1024


def grad_input_bytes(conv, limits):
    """The least load of the grad-input operator. Few output channels bring in the kernel's depth; neither depth nor
    height of the volume does anything."""
    width = max(conv.i[2], 1)
    # Narrower than a block of 16 columns, one block straddles several rows: not read in the sources, an upper estimate.
    rows = conv.window(1) + (1 if width > 16 else -(-16 // width))
    planes = -(-(conv.k[0] - 1) // conv.s[0]) + 1 if conv.co <= c0(conv.itemsize, limits) else 1
    load = min(rows, conv.o[1] * conv.s[1]) * conv.o[2] * conv.s[2] * min(planes, conv.o[0]) * limits.block
    return load + conv.k[1] * conv.k[2] * 16 * limits.block + (512 if conv.itemsize == 2 else 0)


def _beyond(conv, padding, kernel, limits):
    """Complaints about what the forward and weight operators take of each number."""
    return [
        f"{name} {value} beyond {most}"
        for name, value, most in (
            ("kernel", max(conv.k[1:]), kernel),
            ("stride", max(conv.s), limits.stride),
            ("dilation", max(conv.l), limits.dilation),
            ("padding", max(padding), limits.padding),
        )
        if value > most
    ]


def forward_complaints(conv, limits, padding=(0, 0, 0)):
    """Why the forward operator would not take these numbers, whatever the width."""
    wrong = _beyond(conv, padding, limits.kernel_forward, limits)
    taps = conv.k[1] * conv.k[2] * c0(conv.itemsize, limits)
    return wrong + ([f"kernel height x width x C0 = {taps} beyond {limits.taps}"] if taps > limits.taps else [])


def grad_weight_complaints(conv, limits, padding=(0, 0, 0)):
    """Why the weight operator would not take these numbers, whatever the width."""
    return _beyond(conv, padding, limits.kernel_grad_weight, limits)


# ---- native, as a whole ----


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one native operator: its load in bytes, and why it is refused (empty: it is not)."""

    operator: str
    load: int
    why: tuple[str, ...]


def _native_conv(problem, itemsize):
    """The convolution and padding that torch.nn.Conv3d hands over: padded beforehand where the operator cannot."""
    both = problem.padding_mode == "zeros" and problem.pad_lo == problem.pad_hi
    i = problem.x_shape[2:]
    if not both:
        i = [n + p + q for n, p, q in zip(i, problem.pad_lo, problem.pad_hi)]
    conv = Conv(
        problem.x_shape[0], problem.groups, problem.x_shape[1], problem.w_shape[0], tuple(i),
        tuple(problem.y_shape[2:]), tuple(problem.w_shape[2:]), problem.stride, problem.dilation, itemsize,
    )  # fmt: skip
    return conv, problem.pad_lo if both else (0, 0, 0)


def _over(load, limits):
    return [f"{load} bytes against {limits.l1} of L1"] if load > limits.l1 else []


def _grad_input_verdict(conv, limits):
    load = grad_input_bytes(conv, limits)
    if conv.g == 1 and conv.itemsize == 2:  # dense and half: another path, without this check
        return Verdict("grad input", load, ())
    wide = max(conv.i[2], conv.o[2] * conv.s[2])
    why = _over(load, limits) + ([f"last axis {wide} beyond {limits.last_axis}"] if wide > limits.last_axis else [])
    return Verdict("grad input", load, tuple(why))


def native_verdicts(problem, itemsize, limits=A2):
    """Verdicts on forward, grad input and grad weight of torch.nn.functional.conv3d. itemsize: bytes of an element."""
    conv, padding = _native_conv(problem, itemsize)
    forward, weight = forward_bytes(conv, conv.i[2], limits), grad_weight_bytes(conv, conv.i[2], limits)
    return (
        Verdict("forward", forward, tuple(_over(forward, limits) + forward_complaints(conv, limits, padding))),
        _grad_input_verdict(conv, limits),
        Verdict("grad weight", weight, tuple(_over(weight, limits) + grad_weight_complaints(conv, limits, padding))),
    )


def native_refusal(problem, itemsize, limits=A2):
    """What native would be refused for, as text, or None where it is safe."""
    refused = [f"{v.operator}: {', '.join(v.why)}" for v in native_verdicts(problem, itemsize, limits) if v.why]
    return "; ".join(refused) or None

# SPDX-License-Identifier: Apache-2.0
"""The derivatives of conv3d and of its transpose, of every order.

The map is bilinear in x and w, so three operations are closed under differentiation: y from (x, w), gx from (gy, w),
gw from (x, gy). Each is a Function whose backward is made of the other two; their double backward is

  ggy = C(ggx, w) + C(x, ggw) + ggb      gx2 = C'(gy, ggw)      gw2 = reduce(ggx, gy)

The transposed convolution is gx from (gy, w) plus a bias: the same Functions in other roles.

`passes` is the module that computes them: core, composite or empty. Nothing here depends on which.
"""

import torch
from torch.autograd import Function

from . import composite


def _will_execute(node):
    """Whether the engine runs this node in the present backward. Being asked for a leaf whose gradient is captured,
    or outside a backward, the engine raises: then it is needed."""
    try:
        return torch._C._will_engine_execute_node(node)
    except (AttributeError, RuntimeError):
        return True


def _wanted(ctx, count):
    """Which of the first `count` inputs need their gradient now. needs_input_grad alone is true of every input with
    requires_grad, also where torch.autograd.grad asks for one of them. The question costs an exception of 5 to 18
    microseconds for every leaf that torch.autograd.grad does ask for, so a tiny problem does without."""
    needs = ctx.needs_input_grad[:count]
    if needs.count(True) == 1 or ctx.problem.is_tiny:
        return needs
    nodes = ctx.next_functions
    return [need and _will_execute(nodes[k][0]) for k, need in enumerate(needs)]


def _is_batched(t):
    """Whether t belongs to a vmap, that of is_grads_batched included."""
    return torch._C._are_functorch_transforms_active() or torch._C._functorch.is_legacy_batchedtensor(t)


def _passes(ctx, gradient):
    """Those of the forward; for a batch of gradients those that torch can batch."""
    return composite.transformable(ctx.passes) if _is_batched(gradient) else ctx.passes


def _records(a, b):
    """Whether a Function must go on the graph. In a vmap torch's own operators do."""
    return torch.is_grad_enabled() and (a.requires_grad or b.requires_grad) and not (_is_batched(a) or _is_batched(b))


def _any_requires_grad(x, w, b):
    return torch.is_grad_enabled() and (x.requires_grad or w.requires_grad or (b is not None and b.requires_grad))


def convolve(passes, problem, x, w, b):
    """y, differentiable."""
    if _any_requires_grad(x, w, b):
        return _Conv3dFunction.apply(x, w, b, problem, passes)
    return passes.forward(problem, x, w, b)


def transpose(passes, problem, gy, w, b):
    """gx with b added to its channels, differentiable: the transposed convolution of gy."""
    if _any_requires_grad(gy, w, b):
        return _GradInput.apply(gy, w, b, problem, passes)
    return passes.grad_input(problem, gy, w, b)


def _grad_input(passes, problem, gy, w):
    if _records(gy, w):
        return _GradInput.apply(gy, w, None, problem, passes)
    return passes.grad_input(problem, gy, w)


def _grad_weight(passes, problem, x, gy, with_bias):
    if _records(x, gy):
        return _GradWeight.apply(x, gy, with_bias, problem, passes)
    return passes.grad_weight(problem, x, gy, with_bias)


def _grad_bias(passes, problem, gy):
    if _records(gy, gy):
        return gy.sum((0, 2, 3, 4))
    return passes.grad_bias(problem, gy)


def _remember(ctx, problem, passes, a, b):
    """What a Function of the first two inputs, a and b, needs for its backward: each where the other has a gradient."""
    ctx.set_materialize_grads(False)
    ctx.problem, ctx.passes = problem, passes
    needs = ctx.needs_input_grad
    ctx.save_for_backward(a if needs[1] else None, b if needs[0] else None)


class _Conv3dFunction(Function):
    """y = C(x, w) + b."""

    @staticmethod
    def forward(ctx, x, w, b, problem, passes):
        _remember(ctx, problem, passes, x, w)
        return passes.forward(problem, x, w, b)

    @staticmethod
    def backward(ctx, gy):
        gx = gw = gb = None
        if gy is not None:
            x, w = ctx.saved_tensors
            for_x, for_w, for_b = _wanted(ctx, 3)
            passes = _passes(ctx, gy)
            if for_x:
                gx = _grad_input(passes, ctx.problem, gy, w)
            if for_w:
                gw, gb = _grad_weight(passes, ctx.problem, x, gy, for_b)
            elif for_b:
                gb = _grad_bias(passes, ctx.problem, gy)
        return gx, gw, gb, None, None


class _GradInput(Function):
    """gx = C'(gy, w) + b."""

    @staticmethod
    def forward(ctx, gy, w, b, problem, passes):
        _remember(ctx, problem, passes, gy, w)
        return passes.grad_input(problem, gy, w, b)

    @staticmethod
    def backward(ctx, ggx):
        ggy = gw = gb = None
        if ggx is not None:
            gy, w = ctx.saved_tensors
            for_gy, for_w, for_b = _wanted(ctx, 3)
            if for_gy:
                ggy = convolve(_passes(ctx, ggx), ctx.problem, ggx, w, None)
            if for_w:
                gw, _ = _grad_weight(_passes(ctx, ggx), ctx.problem, ggx, gy, False)
            if for_b:
                gb = _grad_bias(_passes(ctx, ggx), ctx.problem.of_x, ggx)
        return ggy, gw, gb, None, None


class _GradWeight(Function):
    """gw = reduce(x, gy), and with_bias gb = the sum of gy."""

    @staticmethod
    def forward(ctx, x, gy, with_bias, problem, passes):
        _remember(ctx, problem, passes, x, gy)
        return passes.grad_weight(problem, x, gy, with_bias)

    @staticmethod
    def backward(ctx, ggw, ggb):
        x, gy = ctx.saved_tensors
        for_x, for_gy = _wanted(ctx, 2)
        gx = ggy = None
        if for_x and ggw is not None:
            gx = _grad_input(_passes(ctx, ggw), ctx.problem, gy, ggw)
        if for_gy and ggw is not None:
            ggy = convolve(_passes(ctx, ggw), ctx.problem, x, ggw, ggb)
        elif for_gy and ggb is not None:
            ggy = ggb.reshape(1, -1, 1, 1, 1).expand(ctx.problem.y_shape)
        return gx, ggy, None, None, None

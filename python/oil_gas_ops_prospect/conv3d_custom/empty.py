# SPDX-License-Identifier: Apache-2.0
"""The passes of a problem without products: no batch, or no input channels. Sums over nothing are exact zeros."""


def forward(problem, x, w, b):
    y = x.new_zeros(problem.y_shape)
    return y if b is None else y + b.reshape(1, -1, 1, 1, 1)


def grad_input(problem, gy, w, b=None):
    return gy.new_zeros(problem.x_shape)  # without a batch or without channels it has no elements that b could reach


def grad_weight(problem, x, gy, with_bias):
    return gy.new_zeros(problem.w_shape), grad_bias(problem, gy) if with_bias else None


def grad_bias(problem, gy):
    return gy.sum((0, 2, 3, 4))

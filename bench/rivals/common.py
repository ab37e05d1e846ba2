# SPDX-License-Identifier: Apache-2.0
"""What several rivals refuse."""


def float32_and_zeros(problem):
    if problem.dtype != "f32":
        return "float32 only"
    return None if problem.padding_mode == "zeros" else f"no padding by {problem.padding_mode}"

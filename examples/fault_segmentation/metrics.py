# SPDX-License-Identifier: Apache-2.0
"""How well a predicted mask meets the labels."""


def overlap(predicted, labels):
    """(Dice, IoU) of two boolean tensors of one shape; 1 where both are empty."""
    both = (predicted & labels).sum().item()
    sizes = predicted.sum().item() + labels.sum().item()
    if sizes == 0:
        return 1.0, 1.0
    return 2 * both / sizes, both / (sizes - both)

# SPDX-License-Identifier: Apache-2.0
"""What is minimised and what is reported."""

from torch.nn.functional import binary_cross_entropy_with_logits


def loss_of(logits, labels):
    """Binary cross-entropy plus one minus the soft Dice, of logits and labels (0 or 1) of the same shape. A scalar.

    Cross-entropy judges each voxel; Dice judges the overlap, and does not drown in the many voxels without a fault.
    """
    probability = logits.sigmoid()
    overlap = (probability * labels).sum()
    dice = (2 * overlap + 1) / (probability.sum() + labels.sum() + 1)
    return binary_cross_entropy_with_logits(logits, labels) + 1 - dice


def dice_and_iou(predicted, labels):
    """Dice = 2 |A and B| / (|A| + |B|) and IoU = |A and B| / |A or B| of two arrays of bool; 1 where both are empty."""
    both = int((predicted & labels).sum())
    either = int((predicted | labels).sum())
    if either == 0:
        return 1.0, 1.0
    return 2 * both / (both + either), both / either

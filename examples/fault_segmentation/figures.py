# SPDX-License-Identifier: Apache-2.0
"""Pictures of a section and of the loss."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def section(path, seismic, labels, probability, title):
    """One inline: seismic, labels and prediction side by side. Arrays are (crossline, depth)."""
    clip = 3 * seismic.std()
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.8), sharey=True, layout="constrained")
    for axis, name in zip(axes, ("seismic", "labels", "predicted probability")):
        axis.imshow(seismic.T, cmap="gray", vmin=-clip, vmax=clip, interpolation="bilinear", aspect="auto")
        axis.set_title(name)
        axis.set_xlabel("crossline")
    axes[0].set_ylabel("depth (samples)")
    axes[1].imshow(labels.T, cmap="autumn", alpha=(labels.T > 0) * 0.9, interpolation="nearest", aspect="auto")
    shown = axes[2].imshow(probability.T, cmap="inferno", vmin=0, vmax=1, alpha=probability.T.clip(0, 1) ** 0.5,
                           interpolation="bilinear", aspect="auto")
    figure.colorbar(shown, ax=axes[2])
    figure.suptitle(title)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def loss_curve(path, training, held_out):
    """Loss of each epoch, on the training patches and on the held-out volumes."""
    figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
    epochs = range(1, len(training) + 1)
    axis.plot(epochs, training, marker="o", label="training")
    axis.plot(epochs, held_out, marker="s", label="held out")
    axis.set_xlabel("epoch")
    axis.set_ylabel("BCE + 1 - Dice")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)

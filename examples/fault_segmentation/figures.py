# SPDX-License-Identifier: Apache-2.0
"""The pictures."""

import matplotlib
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

_LABELS, _PREDICTION = "#2f9e44", "#d6336c"


def _fade(colour):
    """From transparent to `colour`."""
    red, green, blue = matplotlib.colors.to_rgb(colour)
    return LinearSegmentedColormap.from_list("fade", [(red, green, blue, 0), (red, green, blue, 0.9)])


def save_sections(path, seismic, labels, probability, title):
    """Two sections, along an inline and along a crossline, where the labels are densest: seismic, labels, prediction.
    Arrays (depth, inline, crossline)."""
    figure = Figure(figsize=(13, 9), layout="constrained")
    figure.suptitle(title)
    rows = figure.subplots(2, 3)
    for axes, name, along, axis in zip(rows, ("inline", "crossline"), ("crossline", "inline"), (1, 2)):
        at = int(labels.sum(axis=tuple({0, 1, 2} - {axis})).argmax())
        image, marks, guess = (volume.take(at, axis) for volume in (seismic, labels, probability))
        overlays = (None, (marks, _LABELS, "labels"), (guess, _PREDICTION, "predicted probability"))
        for ax, overlay in zip(axes, overlays):
            ax.imshow(image, cmap="gray", vmin=-2.5, vmax=2.5, interpolation="bilinear", aspect="auto")
            ax.set(xlabel=along, title=f"{name} {at}" if overlay is None else overlay[2])
            if overlay is not None:
                ax.imshow(overlay[0], cmap=_fade(overlay[1]), vmin=0, vmax=1, interpolation="nearest", aspect="auto")
            ax.tick_params(labelleft=ax is axes[0])
        axes[0].set_ylabel("depth")
    figure.savefig(path, dpi=120)


def save_curves(path, losses, dices):
    """Training loss and held-out Dice of each epoch."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    epochs = range(1, len(losses) + 1)
    lines = left.plot(epochs, losses, "o-", color="#1c7ed6", markersize=4, label="training loss (BCE + 1 - Dice)")
    left.set(xlabel="epoch", ylabel="loss", ylim=(0, None))
    left.xaxis.get_major_locator().set_params(integer=True)
    right = left.twinx()
    lines += right.plot(epochs, dices, "s-", color=_PREDICTION, markersize=4, label="held-out Dice")
    right.set(ylabel="Dice", ylim=(0, 1))
    left.grid(alpha=0.3)
    figure.legend(handles=lines, loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path, dpi=120)

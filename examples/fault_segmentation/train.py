# SPDX-License-Identifier: Apache-2.0
"""Trains a small network to find faults in seismic volumes, with the Conv3d of this package.

Without --volume the volumes are synthetic. With it, the first three quarters of your inlines are trained on and the last
quarter is held out. Writes section.png, loss.png and weights.pt, and at the end times one training step of the same
network with torch.nn.Conv3d.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
from figures import save_curves, save_sections
from metrics import dice_and_iou
from network import FaultNet
from patches import predict, random_patch
from synthetic import make_volume
from tqdm import tqdm
from training import Trainer, time_step
from volume_io import read_pair

from oil_gas_ops_prospect.conv3d_custom import Conv3d

LEAST_EXTENT = 8
WINDOW = 128  # extent of a window of prediction, and most of what is predicted after each epoch
NATIVE_EXTENT = 64  # of the patch that native is timed on: the native backward takes seconds there


def _positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {value}")
    return value


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--volume", metavar="FILE", help="seismic, .npy (depth, inline, crossline) or .sgy; needs --labels")
    add("--labels", metavar="FILE", help="faults, a volume of the same shape: not 0 on a fault")
    add("--epochs", type=_positive, default=20, help="passes of --steps random patches")
    add("--steps", type=_positive, default=36, help="patches an epoch")
    add("--patch", type=_positive, default=64, help="extent of a patch")
    add("--width", type=_positive, default=12, help="channels of the network at full resolution")
    add("--rate", type=float, default=1e-2, help="highest learning rate")
    add("--volumes", type=_positive, default=12, help="synthetic volumes to train on")
    add("--extent", type=_positive, default=128, help="extent of a synthetic volume")
    add("--seed", type=int, default=0, help="the same seed and number of threads give the same run")
    add("--threads", type=_positive, default=torch.get_num_threads())
    add("--output", metavar="FOLDER", type=Path, default=Path("demo-output"))
    options = parser.parse_args(arguments)
    if (options.volume is None) != (options.labels is None):
        parser.error("--volume and --labels go together")
    if min(options.patch, options.extent) < LEAST_EXTENT:
        parser.error(f"--patch and --extent: expected {LEAST_EXTENT} or more")
    return options


def _split(seismic, labels):
    """The first three quarters of the inlines, and the rest."""
    cut = seismic.shape[1] * 3 // 4
    if min(*seismic.shape, seismic.shape[1] - cut) < LEAST_EXTENT:
        raise ValueError(
            f"--volume: expected {LEAST_EXTENT} samples and crosslines and {4 * LEAST_EXTENT} inlines or more, got "
            f"shape {seismic.shape}"
        )
    return (seismic[:, :cut], labels[:, :cut]), (seismic[:, cut:], labels[:, cut:])


def volumes_of(options):
    """(volumes to train on, held-out volume), each volume a pair (seismic, labels)."""
    if options.volume is not None:
        training, held_out = _split(*read_pair(options.volume, options.labels))
        return [training], held_out
    seeds = np.random.SeedSequence(options.seed).spawn(options.volumes + 1)
    shape = (options.extent,) * 3
    made = [make_volume(shape, seed) for seed in tqdm(seeds, desc="volumes", file=sys.stdout, leave=False)]
    return made[:-1], made[-1]


def _middle(pair, most):
    """The middle of a volume, at most `most` along each axis."""
    window = tuple(slice(max(0, (n - most) // 2), max(0, (n - most) // 2) + most) for n in pair[0].shape)
    return pair[0][window], pair[1][window]


def train(network, training, held_out, options):
    """(losses, held-out Dices) of the epochs."""
    rng = np.random.default_rng(options.seed)
    trainer = Trainer(network, options.rate, options.epochs * options.steps)
    seismic, labels = _middle(held_out, WINDOW)
    losses, dices = [], []
    with tqdm(total=options.epochs * options.steps, unit="step", file=sys.stdout) as bar:

        def report(loss):
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            bar.update()

        for epoch in range(1, options.epochs + 1):
            start = time.perf_counter()
            losses.append(trainer.epoch(rng, training, options.patch, options.steps, report))
            seconds = time.perf_counter() - start
            dices.append(dice_and_iou(predict(network, seismic, WINDOW) > 0.5, labels)[0])
            bar.write(
                f"epoch {epoch:2}/{options.epochs}  loss {losses[-1]:.4f}  held-out Dice {dices[-1]:.3f}  {seconds:.1f} s",
                file=sys.stdout,
            )
    return losses, dices


def compare_with_native(network, training, options):
    """Prints what one step takes with this package's Conv3d and with torch's, from the same weights on the same patch."""
    extent = min(options.patch, NATIVE_EXTENT)
    seismic, labels = random_patch(np.random.default_rng(options.seed), training, extent)
    ours, loss = time_step(network, Conv3d, seismic, labels, repeats=3)
    native, native_loss = time_step(network, torch.nn.Conv3d, seismic, labels, repeats=1)
    print(f"one training step on {' x '.join(map(str, seismic.shape[2:]))}, {torch.get_num_threads()} threads:")
    print(f"  Conv3d of this package  {ours:8.3f} s  loss {loss:.6f}")
    print(f"  torch.nn.Conv3d         {native:8.3f} s  loss {native_loss:.6f}  ({native / ours:.1f} x the time)")


def main(arguments=None):
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    start = time.perf_counter()
    try:
        training, held_out = volumes_of(options)
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"train.py: {error}")
    options.output.mkdir(parents=True, exist_ok=True)
    network = FaultNet(options.width)
    print(f"{sum(p.numel() for p in network.parameters())} parameters, {options.threads} threads")

    losses, dices = train(network, training, held_out, options)
    seismic, labels = held_out
    probability = predict(network, seismic, WINDOW)
    dice, iou = dice_and_iou(probability > 0.5, labels)
    title = f"Held out: Dice {dice:.3f}, IoU {iou:.3f}"
    save_sections(options.output / "section.png", seismic, labels, probability, title)
    save_curves(options.output / "loss.png", losses, dices)
    torch.save(network.state_dict(), options.output / "weights.pt")

    compare_with_native(network, training, options)
    print(f"held-out Dice {dice:.3f}  IoU {iou:.3f}")
    print(f"{time.perf_counter() - start:.0f} s in all; pictures and weights are in {options.output}/")


if __name__ == "__main__":
    main()

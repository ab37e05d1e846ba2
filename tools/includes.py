# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. Includes in quotes are ours; each has to follow an arrow of this page."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Files of src/, lowest layer first. A file includes its own header and what lies in lower layers; a .c file stands with
# its header unless it is named.
LAYERS = [
    ["ogp/conv3d.h", "kernels/kernels.h"],
    ["util.h", "arena.h", "pages.h", "transform.h"],
    ["error.h"],
    ["pool.h", "problem.h", "tensor.h", "text.h", "cpu.h"],
    ["lattice.h"],
    ["reach.h"],
    ["plan.h"],
    ["job.h", "describe.h"],
    ["pack.h", "flat.h"],
    ["direct.h", "window.h"],
    ["tiling.h", "partial.h", "lanes.h"],
    ["fourier.h", "mute.h", "winograd.h", "lanes_sums.h", "lanes_tiling.h", "pointwise.h"],
    ["fourier_reader.c", "spectrum.h", "winograd_weights.h"],
    ["correlate.h", "reduce.h", "lanes_weights.c", "lanes_correlate.h", "lanes_reduce.h", "bias.h", "reference.h",
     "pointwise_correlate.h", "pointwise_reduce.h"],
    ["spectral_task.h", "winograd_tile.h"],
    ["spectral_output.h", "winograd_output.h"],
    ["spectral_correlate.h", "spectral_reduce.h", "winograd_correlate.h", "winograd_reduce.h"],
    ["tile.h"],
    ["plan.c"],
    ["conv3d.c"],
]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}

# Folders whose files include the public header and one another.
OUTSIDE = ["examples", "python/oil_gas_ops_prospect", "tests/c"]


def layer(name):
    return LAYER.get(name, LAYER.get(re.sub(r"\.c$", ".h", name)))


def complaint(path, included):
    """Why the include is wrong, or None."""
    folder, name = path.parent.as_posix(), path.name
    if folder == "include/ogp":
        return "the public header stands alone"
    if folder in OUTSIDE:
        known = included == "ogp/conv3d.h" or (ROOT / folder / included).is_file()
        return None if known else "it sees the public header and its own folder"
    if folder == "src/kernels":
        known = (ROOT / folder / included).is_file() and "/" not in included and name != "kernels.h"
        return None if known else "kernels see only their own folder, kernels.h nothing"
    if layer(name) is None or layer(included) is None:
        return "give both files a place in LAYERS"
    own = included == re.sub(r"\.c$", ".h", name)
    return None if own or layer(included) < layer(name) else "it lies in the same or a higher layer"


def main():
    files = [path for folder in ["include", "src", *OUTSIDE] for path in sorted((ROOT / folder).rglob("*.[ch]"))]
    wrong = arrows = 0
    for file in files:
        path = file.relative_to(ROOT)
        for included in re.findall(r'^\s*#\s*include\s+[<"](ogp/[^>"]+|(?<=")[^"]+)[>"]', file.read_text("utf-8"), re.M):
            arrows += 1
            why = complaint(path, included)
            if why:
                wrong += 1
                print(f"{path} includes {included}: {why}")
    print(f"{len(files)} files, {arrows} includes, {wrong} complaints")
    return wrong != 0 or arrows == 0


if __name__ == "__main__":
    sys.exit(main())

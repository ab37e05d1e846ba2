# SPDX-License-Identifier: Apache-2.0
"""python -m oil_gas_ops_prospect explain "forward g7 ci7 co7 i168x296x296 k7 p3"
python -m oil_gas_ops_prospect check-model file.py:Net --input 1,1,296,296,168

What an Ascend NPU would do with a convolution, or with every Conv3d and ConvTranspose3d of a model. Neither needs the
device. A problem that begins with `transposed` is a transposed layer: "transposed ci64 co32 i40 k2 s2"."""

import argparse
import importlib.util
import sys
from pathlib import Path

import torch

from .conv3d_custom.npu import A2
from .conv3d_custom.npu_check import check_model
from .conv3d_custom.npu_explain import explain_text

_DTYPES = ("float32", "float16", "bfloat16")


def _shape(text):
    try:
        shape = tuple(int(extent) for extent in text.split(","))
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"expected extents of 1 and more with commas between them, got {text!r}")
    return shape


def _explain(options):
    try:
        print(explain_text(options.problem, getattr(torch, options.dtype)))
    except RuntimeError as error:
        sys.exit(str(error))


def _loaded(where):
    """What `file.py:Name` names, made on the meta device."""
    path, _, name = where.rpartition(":")
    if not name or not Path(path).is_file():
        sys.exit(f"check-model: expected FILE.py:NAME with an existing file, got {where!r}")
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    with torch.device("meta"):
        spec.loader.exec_module(module)
        model = getattr(module, name, None)
        model = model if isinstance(model, torch.nn.Module) or not callable(model) else model()
    if not isinstance(model, torch.nn.Module):
        sys.exit(f"check-model: expected {name} of {path} to be a module or to make one by itself, got {model!r}")
    return model.to("meta")


def _check_model(options):
    layers, refused = check_model(_loaded(options.model), *options.input, dtype=getattr(torch, options.dtype))
    for line in refused:
        print(line)
    count = f"Conv3d and ConvTranspose3d layers: {layers}"
    print(f"{count}, of which the native operators refuse {len(refused)} on {A2.name}")
    return int(bool(refused))


def _options(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m oil_gas_ops_prospect", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="explain | check-model")
    explain = commands.add_parser("explain", help="native's verdict on a convolution, and the composite's steps")
    explain.add_argument("problem", help="its text form: docs/api_list.md")
    explain.set_defaults(run=_explain)
    check = commands.add_parser("check-model", help="the layers that native refuses; exit status 1 if any")
    check.add_argument("model", metavar="FILE.py:NAME", help="a module, or what makes one by itself; the file is run")
    check.add_argument("--input", type=_shape, action="append", required=True, metavar="N,C,D,H,W", help="an argument")
    check.set_defaults(run=_check_model)
    for command in (explain, check):
        command.add_argument("--dtype", choices=_DTYPES, default="float32", help="what the device computes in")
    return parser.parse_args(arguments)


def main(arguments=None):
    """The exit status of a command line."""
    options = _options(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())

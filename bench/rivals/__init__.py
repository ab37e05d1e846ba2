# SPDX-License-Identifier: Apache-2.0
"""Forwards of other libraries, each where it is installed. A module of this package has

  missing()          None, or what to install
  refuses(problem)   None, or why this library does not compute the problem
  prepare(problem, conv, x, threads)
                     a callable that computes y as a NumPy array; conv: the native module with its weights, x: a tensor

and imports its library inside of them, so that the module itself can always be imported."""

from . import onnxruntime, openvino

FORWARDS = {"openvino": openvino, "onnxruntime": onnxruntime}

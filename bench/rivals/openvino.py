# SPDX-License-Identifier: Apache-2.0
"""OpenVINO on the CPU: a model of one convolution, compiled for latency in float32."""

import importlib.util

from .common import float32_and_zeros as refuses  # noqa: F401


def missing():
    return None if importlib.util.find_spec("openvino") else "pip install openvino"


def _convolution(problem, x, w):
    from openvino import opset13 as ops

    pads = problem.padding, problem.padding
    more = {}
    if problem.transposed:
        make = ops.convolution_backprop_data if problem.groups == 1 else ops.group_convolution_backprop_data
        more = {"output_padding": list(problem.output_padding)}
    else:
        make = ops.convolution if problem.groups == 1 else ops.group_convolution
    if problem.groups > 1:
        w = w.reshape(problem.groups, w.shape[0] // problem.groups, *w.shape[1:])
    arguments = dict(strides=problem.stride, pads_begin=pads[0], pads_end=pads[1], dilations=problem.dilation)
    return make(x, ops.constant(w), **{name: list(value) for name, value in arguments.items()}, **more)


def prepare(problem, conv, x, threads):
    import openvino
    from openvino import opset13 as ops

    w, b = (tensor.detach().numpy() for tensor in (conv.weight, conv.bias))
    parameter = ops.parameter(list(problem.x_shape), dtype=openvino.Type.f32)
    y = ops.add(_convolution(problem, parameter, w), ops.constant(b.reshape(1, -1, 1, 1, 1)))
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16 where the CPU has it
    }
    compiled = openvino.Core().compile_model(openvino.Model([y], [parameter], "convolution"), "CPU", options)
    request = compiled.create_infer_request()
    inputs = {0: x.numpy()}
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)[0]

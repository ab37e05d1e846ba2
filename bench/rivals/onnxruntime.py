# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU: a model of one convolution. onnx writes it."""

import importlib.util

from .common import float32_and_zeros as refuses  # noqa: F401


def missing():
    wanted = [name for name in ("onnxruntime", "onnx") if not importlib.util.find_spec(name)]
    return f"pip install {' '.join(wanted)}" if wanted else None


def _model(problem, conv):
    """The bytes of an ONNX model y = conv(x)."""
    from onnx import TensorProto, helper, numpy_helper

    attributes = dict(
        kernel_shape=problem.kernel, strides=problem.stride, pads=problem.padding * 2, dilations=problem.dilation,
        group=problem.groups,
    )  # fmt: skip
    if problem.transposed:
        attributes["output_padding"] = problem.output_padding
    node = helper.make_node("ConvTranspose" if problem.transposed else "Conv", ["x", "w", "b"], ["y"], **attributes)
    weights = {"w": conv.weight, "b": conv.bias}
    constants = [numpy_helper.from_array(tensor.detach().numpy(), name) for name, tensor in weights.items()]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", problem.x_shape), ("y", problem.y_shape))
    )
    graph = helper.make_graph([node], "convolution", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def prepare(problem, conv, x, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the other sides run in between
    session = onnxruntime.InferenceSession(_model(problem, conv), options, providers=["CPUExecutionProvider"])
    inputs = {"x": x.numpy()}
    return lambda: session.run(None, inputs)[0]

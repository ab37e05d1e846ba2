# SPDX-License-Identifier: Apache-2.0
"""What is told about an NPU without one: explain, check_model and the command line."""

import re

import pytest
import torch
from torch import nn

from oil_gas_ops_prospect import _core
from oil_gas_ops_prospect.__main__ import main
from oil_gas_ops_prospect.conv3d_custom import (
    Conv3d,
    ConvTranspose3d,
    LazyConv3d,
    check_model,
    conv3d_backend,
    explain,
)
from oil_gas_ops_prospect.conv3d_custom.npu_explain import explain_text

TRAIN04 = "forward g7 ci7 co7 i168x296x296 k7 p3"


def test_explain_names_the_bytes_and_the_steps():
    text = explain((1, 7, 168, 296, 296), (7, 1, 7, 7, 7), padding=3, groups=7)
    assert "grad input   555520 bytes: refused, 555520 bytes against 524288 of L1" in text
    assert "forward      75776 bytes: taken" in text and "grad weight  152576 bytes: taken" in text
    assert re.search(r"within 262144 bytes of L1 and 2147483648 bytes of memory", text)
    assert re.search(r"grad input   convolution, 1 step, 77312 bytes of L1", text)
    half = explain((7, 168, 296, 296), (7, 1, 7, 7, 7), padding=3, groups=7, dtype=torch.float16)
    assert "grad input   556032 bytes: refused" in half and half.count("input (1, 7, 168, 296, 296)") == 1


def test_explain_follows_the_budgets():
    with conv3d_backend("auto", l1_budget=40_000, volume_budget=100 << 20):
        text = explain((2, 7, 168, 296, 296), (7, 1, 7, 7, 7), padding="same", groups=7)
    assert "within 40000 bytes of L1 and 104857600 bytes of memory" in text
    plan = re.search(r"  forward      convolution, (\d+) steps \((.*)\), (\d+) bytes of L1", text)
    parts = dict(re.findall(r"(\w+) in (\d+) parts", plan[2]))
    assert parts["samples"] == "2" and int(parts["width"]) * int(parts["depth"]) * 2 == int(plan[1])
    assert int(plan[3]) <= 40_000


@pytest.mark.parametrize("arguments, error, message", [
    (dict(dtype=torch.float64), RuntimeError, "expected a dtype of the device.*float64"),
    (dict(padding_mode="odd"), ValueError, "padding_mode"),
    (dict(groups=2), RuntimeError, "groups=2"),
    (dict(stride=1.5), TypeError, "stride"),
])  # fmt: skip
def test_explain_refuses_what_is_no_convolution(arguments, error, message):
    with pytest.raises(error, match=message):
        explain((1, 7, 9, 9, 9), (7, 1, 3, 3, 3), **{"groups": 7, **arguments})


def test_explain_tells_of_a_transposed_layer_by_the_convolution_that_it_transposes():
    of_convolution = explain((1, 6, 40, 148, 160), (4, 3, 5, 5, 5), 2, 2, groups=2)
    of_layer = explain((1, 4, 20, 74, 80), (4, 3, 5, 5, 5), 2, 2, 1, 2, transposed=True, output_padding=1)
    first, rest = of_layer.split("\n", 1)
    assert rest == of_convolution
    assert first.startswith("transposed: input (1, 4, 20, 74, 80), output (1, 6, 40, 148, 160); its forward")
    text = "transposed g2 ci4 co6 i20x74x80 k5 s2 p2 q1"
    assert explain_text(text) == explain_text(f" {text}\n") == of_layer
    assert explain((4, 20, 74, 80), (4, 6, 2, 2, 2), (2, 2, 2), transposed=True).startswith("transposed: input (1, 4,")


@pytest.mark.parametrize("text, message", [
    ("transposed ci4 co6 z2", "got 'z2'"),
    ("transposed ci4 co6 i4 k2 s2 q1", "negative output_padding"),
    ("transposed ci4 co6 i4 k3 p1 q0", "output padding must be smaller"),
    ("transposed g2 ci4 co5 i4 k3", "expected co that groups divide, got co 5 and g 2"),
    ("transposed g0 ci4 co5 i4 k3", "got co 5 and g 0"),
    ("transposed ci4 co6 i4 k3 reflect p1", "expected padding_mode 'zeros' of a transposed layer"),
])  # fmt: skip
def test_explain_refuses_what_is_no_transposed_layer(text, message):
    with pytest.raises(RuntimeError, match=message):
        explain_text(text)


def test_output_padding_is_of_transposed_layers_alone():
    with pytest.raises(RuntimeError, match="expected output_padding of a transposed layer alone, got 1"):
        explain((1, 2, 9, 9, 9), (2, 2, 3, 3, 3), output_padding=1)


@pytest.mark.parametrize("text", [
    TRAIN04,
    "grad_weight f64 reflect n2 g7 ci7 co14 i29x30x31 k7x7x9 s1x2x3 p3x3x4 q3x2x4 l1x1x2",
    "grad_bias circular ci4 co2 g2 i5 k3",
])  # fmt: skip
def test_the_text_form_round_trips(text):
    """What describe prints of a parsed text, parsed again, is the same problem."""
    parsed = _core.parse(text)
    assert _core.parse(_core.describe(*parsed).split("|")[0]) == parsed


def test_parse_reads_each_number():
    text = "grad_weight f64 reflect n2 g7 ci14 co21 i6x7x8 k1x2x3 s4x5x6 p1x2x3 q0 l7"
    geometry, dtype, x_shape, w_shape, name = _core.parse(text)
    assert geometry == ((4, 5, 6), (1, 2, 3), (0, 0, 0), (7, 7, 7), 7, 1, 0)
    assert (dtype, x_shape, w_shape, name) == (1, (2, 14, 6, 7, 8), (21, 2, 1, 2, 3), "grad_weight")


@pytest.mark.parametrize("argument, error, message", [
    ("forward z7", RuntimeError, "got 'z7'"),
    (7, TypeError, "text: expected a str, got <class 'int'>"),
])  # fmt: skip
def test_parse_refuses(argument, error, message):
    with pytest.raises(error, match=message):
        _core.parse(argument)


# ---- the command line ----


def test_explain_on_the_command_line(capsys):
    assert not main(["explain", TRAIN04])
    assert capsys.readouterr().out.strip() == explain((1, 7, 168, 296, 296), (7, 1, 7, 7, 7), padding=3, groups=7)
    main(["explain", TRAIN04, "--dtype", "bfloat16"])
    assert "556032 bytes: refused" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, message", [
    (["explain", "forward z7"], "got 'z7'"),
    (["explain", "forward g2 ci7 co7 i9 k3"], "ci: expected a multiple of g = 2, got 7"),
    (["explain", "forward g0 ci7 co7 i9 k3"], "groups: expected at least 1, got 0"),
    (["explain", "forward n0 i9 k3"], "expected a batch with input channels"),
    (["check-model", "no_such_file.py:Net", "--input", "1,1,9,9,9"], "existing file, got 'no_such_file.py:Net'"),
    (["check-model", "no_such_file.py", "--input", "1,1,9,9,9"], "FILE.py:NAME"),
])  # fmt: skip
def test_bad_input_ends_with_a_message(arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("arguments", [
    [],
    ["check-model", "a.py:N"],
    ["check-model", "a.py:N", "--input", "1,x"],
    ["check-model", "a.py:N", "--input", "0,1"],
    ["explain", TRAIN04, "--dtype", "f64"],
])  # fmt: skip
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2 and "error:" in capsys.readouterr().err


class Net(nn.Module):
    def __init__(self, width=7):
        super().__init__()
        self.stem = nn.Conv3d(1, width, 3, padding=1)
        self.body = nn.Sequential(
            Conv3d(width, width, 7, padding="same", groups=width, padding_mode="reflect"), nn.BatchNorm3d(width),
            nn.Conv3d(width, width, 9, padding=4, groups=width),
        )  # fmt: skip

    def forward(self, x, y=None):
        x = self.body(self.stem(x))
        return x if y is None else x + self.body(self.stem(input=y))


def on_meta(make):
    with torch.device("meta"):
        return make()


def test_check_model_lists_what_native_refuses():
    layers, refused = check_model(on_meta(Net), (1, 1, 296, 296, 168))
    assert layers == 3 and len(refused) == 1
    assert refused[0].startswith("body.2: input (1, 7, 296, 296, 168), weight (7, 1, 9, 9, 9): grad input: 525312 ")
    assert check_model(on_meta(Net), (1, 1, 40, 40, 80)) == (3, [])
    assert len(check_model(on_meta(Net), (1, 1, 168, 296, 296))[1]) == 2
    assert check_model(on_meta(lambda: Net(17)), (1, 1, 168, 296, 296), dtype=torch.float16) == (3, [])


class Up(nn.Module):
    """The width of y, which is the input of the convolution that is transposed, decides."""

    def __init__(self):
        super().__init__()
        self.native = nn.ConvTranspose3d(7, 7, 9, padding=4, groups=7)
        self.ours = ConvTranspose3d(7, 7, 4, stride=2, padding=1, groups=7)

    def forward(self, x):
        return self.ours(self.native(x), output_size=[2 * n + 1 for n in x.shape[-3:]])


def test_check_model_lists_transposed_layers():
    layers, refused = check_model(on_meta(Up), (1, 7, 296, 296, 168))
    assert layers == 2 and len(refused) == 1
    assert refused[0] == (
        "native: input (1, 7, 296, 296, 168), weight (7, 1, 9, 9, 9), transposed: grad input: 525312 bytes against "
        "524288 of L1"
    )
    layers, refused = check_model(on_meta(Up), (7, 20, 20, 2999))
    assert [text.split(":")[0] for text in refused] == ["native", "ours"]
    assert check_model(on_meta(Up), (1, 7, 20, 20, 40)) == (2, [])


def test_check_model_counts_a_layer_once_for_each_shape():
    model = on_meta(Net)
    assert check_model(model, (1, 1, 9, 9, 80), (1, 1, 9, 9, 80))[0] == 3
    with pytest.raises(RuntimeError):
        check_model(model, (1, 2, 9, 9, 80))
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    lazy = on_meta(lambda: LazyConv3d(8, 7, padding=3))
    assert check_model(lazy, (3, 20, 20, 296))[1][0].startswith("the model: input (3,")


def test_check_model_on_the_command_line(tmp_path, capsys):
    (tmp_path / "sizes.py").write_text("WIDTH = 7\n")
    (tmp_path / "net.py").write_text(
        "from sizes import WIDTH\nfrom torch import nn\n\n\n"
        "def Net():\n    return nn.Conv3d(WIDTH, WIDTH, 9, padding=4, groups=WIDTH)\n\n\nready = Net()\nnumber = 3\n"
    )
    for name in ("Net", "ready"):
        assert main(["check-model", f"{tmp_path}/net.py:{name}", "--input", "1,7,296,296,168"]) == 1
        assert capsys.readouterr().out.splitlines() == [
            "the model: input (1, 7, 296, 296, 168), weight (7, 1, 9, 9, 9): "
            "grad input: 525312 bytes against 524288 of L1",
            "Conv3d and ConvTranspose3d layers: 1, of which the native operators refuse 1 on Ascend A2/A3",
        ]
    assert main(["check-model", f"{tmp_path}/net.py:Net", "--input", "1,7,99,99,99"]) == 0
    for name in ("number", "missing"):
        with pytest.raises(SystemExit, match="to be a module or to make one by itself"):
            main(["check-model", f"{tmp_path}/net.py:{name}", "--input", "1,7,9,9,9"])

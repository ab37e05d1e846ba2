# SPDX-License-Identifier: Apache-2.0
"""Which implementation runs, and what importing the package does not do."""

import contextvars
import os
import subprocess
import sys
import threading
import types

import pytest
import torch
import torch.nn.functional as F

from oil_gas_ops_prospect.conv3d_custom import Conv3d, conv3d_backend, core, device, npu_available
from oil_gas_ops_prospect.conv3d_custom.functional import conv3d

F32, F16 = torch.float32, torch.float16


def python(code, **environment):
    """Runs it in a fresh interpreter; environment None means unset."""
    env = {k: v for k, v in (os.environ | environment).items() if v is not None}
    env.setdefault("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)


def test_the_rule_of_the_module():
    assert device.module_backend("cpu", F32) == device.module_backend("cpu", torch.float64) == "c"
    assert device.module_backend("cpu", F16) == "native"
    assert device.module_backend("npu", F32) == device.module_backend("npu", F16) == "composite"
    assert [device.module_backend(kind, F32) for kind in ("cuda", "privateuseone", "meta")] == ["native"] * 3


def test_the_rule_by_shapes():
    def backend(x_shape, w_shape, dtype=F32, stride=(1, 1, 1)):
        return device.module_backend("cpu", dtype, x_shape, w_shape, stride)

    assert backend((1, 7, 64, 64, 64), (7, 1, 9, 9, 9)) == "c"
    assert backend((1, 96, 64, 64, 64), (96, 1, 9, 9, 9)) == "c"
    assert backend((1, 1, 64, 64, 64), (32, 1, 3, 3, 3)) == "c"
    assert backend((1, 64, 64, 64, 64), (64, 64, 3, 3, 3)) == backend((1, 64, 8, 8, 8), (64, 64, 3, 3, 3)) == "c"
    assert backend((1, 320, 4, 4, 4), (320, 320, 3, 3, 3)) == backend((1, 256, 8, 8, 8), (256, 256, 3, 3, 3)) == "native"
    assert backend((1, 128, 16, 16, 16), (256, 128, 3, 3, 3)) == backend((1, 192, 24, 24, 24), (64, 192, 3, 3, 3)) == "c"
    assert backend((1, 128, 16, 16, 16), (256, 128, 3, 3, 3), stride=(1, 2, 2)) == "native"
    assert backend((1, 64, 16, 16, 16), (128, 64, 3, 3, 3), stride=(2, 2, 2)) == "c"
    assert backend((1, 7, 96, 96, 96), (7, 7, 1, 1, 1)) == backend((1, 16, 32, 32, 32), (16, 16, 1, 1, 1)) == "c"
    assert backend((1, 4, 32, 32, 32), (4, 4, 1, 1, 1)) == "native"
    assert backend((1, 4, 32, 32, 32), (4, 4, 1, 1, 1), torch.float64) == "c"
    assert backend((1, 128, 16, 16, 16), (256, 128, 1, 1, 1)) == "native"
    assert backend((1, 16, 16, 16, 16), (32, 16, 5, 5, 5)) == backend((1, 32, 8, 8, 8), (32, 32, 5, 5, 5)) == "native"
    assert backend((1, 32, 16, 16, 16), (32, 32, 5, 5, 5)) == backend((1, 192, 16, 16, 16), (64, 192, 3, 3, 3)) == "c"
    assert backend((1, 32, 16, 16, 16), (32, 32, 5, 5, 5), torch.float64) == "c"
    assert backend((1, 32, 32, 32, 32), (32, 32, 5, 5, 5)) == "c"
    assert backend((8, 3, 16, 224, 224), (384, 3, 2, 14, 14), stride=(2, 14, 14)) == "native"
    assert backend((64, 3, 2, 14, 14), (384, 3, 2, 14, 14)) == "c"
    assert backend((3, 2, 14, 14), (384, 3, 2, 14, 14)) == "native"
    assert backend((1, 1, 4, 4, 4), (1, 1, 3, 3, 3)) == backend((1, 1, 16, 16, 16), (8, 1, 1, 1, 1)) == "native"
    assert backend((1, 4, 4, 4, 4), (4, 4, 7, 7, 7)) == backend((1, 16, 2, 2, 2), (16, 1, 3, 3, 3)) == "c"
    assert backend((1, 4, 2, 2, 2), (4, 4, 7, 7, 7), torch.float64) == "native"
    assert backend((1, 4, 4, 4, 4), (4, 4, 7, 7, 7), torch.float64) == backend((1, 32, 4, 4, 4), (32, 32, 3, 3, 3)) == "c"
    assert backend((1, 16, 4, 4, 4), (16, 1, 3, 3, 3), torch.float64) == "c"
    assert backend((1, 0, 4, 4, 4), (2, 0, 3, 3, 3)) in ("c", "native")


def test_the_rule_of_the_function():
    assert device.function_backend("cpu", F32) == "c"
    assert [device.function_backend(kind, F16) for kind in ("cpu", "npu", "cuda")] == ["composite"] * 3


@pytest.mark.parametrize("name", device.BACKENDS)
def test_forced(name):
    with conv3d_backend(name):
        for rule in (device.module_backend, device.function_backend):
            assert name in ("auto", rule("cuda", F16)) and name in ("auto", rule("cpu", F32))
    assert device.module_backend("cpu", F32) == "c"


def test_forced_is_restored_after_an_error_and_nests():
    with pytest.raises(ZeroDivisionError), conv3d_backend("native"):
        with conv3d_backend("composite"):
            assert device.module_backend("cpu", F32) == "composite"
        assert device.module_backend("cpu", F32) == "native"
        1 / 0
    assert device.module_backend("cpu", F32) == "c"


def test_forced_is_of_its_thread():
    seen = []
    with conv3d_backend("native"):
        thread = threading.Thread(target=lambda: seen.append(device.module_backend("cpu", F32)), daemon=True)
        thread.start()
        thread.join()
        seen.append(contextvars.copy_context().run(device.module_backend, "cpu", F32))
    assert seen == ["c", "native"]


def test_forced_c_refuses_what_it_cannot_take():
    with conv3d_backend("c"), pytest.raises(RuntimeError, match="float16"):
        conv3d(torch.zeros(1, 1, 3, 3, 3, dtype=F16), torch.zeros(1, 1, 3, 3, 3, dtype=F16))


def test_an_unknown_name():
    with pytest.raises(ValueError, match="conv3d_backend.*'gpu'"), conv3d_backend("gpu"):
        pass


def calls_core(monkeypatch, call):
    calls = []
    monkeypatch.setattr(core, "forward", lambda *a, run=core.forward: calls.append(1) or run(*a))
    call()
    return bool(calls)


@pytest.mark.parametrize("name,expected", [("auto", True), ("c", True), ("composite", False), ("native", False)])
def test_the_call_follows_the_rule(name, expected, monkeypatch):
    conv, x = Conv3d(1, 1, 3, padding=1), torch.ones(1, 1, 8, 8, 8)
    with conv3d_backend(name):
        assert calls_core(monkeypatch, lambda: conv(x)) == expected
        assert calls_core(monkeypatch, lambda: conv3d(x, conv.weight)) == expected


def test_native_is_untouched():
    """Bits and error of torch.nn.Conv3d, no Function on the graph."""
    conv, x = Conv3d(4, 4, 3, padding=1, padding_mode="reflect"), torch.randn(1, 4, 5, 5, 5)
    with conv3d_backend("native"):
        y = conv(x)
    assert y.grad_fn.name() == "ConvolutionBackward0"
    assert torch.equal(y, F.conv3d(F.pad(x, [1] * 6, mode="reflect"), conv.weight, conv.bias))


@pytest.mark.parametrize("failure", [None, RuntimeError("driver"), OSError("no such device")])
def test_npu_available_never_raises(failure, monkeypatch):
    def is_available():
        raise failure

    monkeypatch.setattr(torch, "npu", types.SimpleNamespace(is_available=is_available) if failure else None, raising=False)
    assert npu_available() is False


def test_the_environment_forces_a_backend():
    code = "from oil_gas_ops_prospect.conv3d_custom import device; import torch; print(device.module_backend('cpu', torch.float32))"
    assert python(code, OGP_CONV3D="composite").stdout.strip() == "composite"
    each = """
import importlib, os, torch
from oil_gas_ops_prospect.conv3d_custom import device
for name in device.BACKENDS:
    os.environ["OGP_CONV3D"] = name
    print(name, importlib.reload(device).module_backend("cpu", torch.float32))
"""
    assert python(each).stdout.split() == ["auto", "c", "native", "native", "composite", "composite", "c", "c"]
    wrong = python(code, OGP_CONV3D="gpu")
    assert wrong.returncode != 0 and "OGP_CONV3D" in wrong.stderr and "'gpu'" in wrong.stderr


def test_the_environment_sets_budgets_for_npus_alone(monkeypatch):
    code = """
from oil_gas_ops_prospect.conv3d_custom import device
print(device.planning("npu")[1], device.planning("cpu"))
"""
    done = python(code, OGP_NPU_L1_BUDGET="1000", OGP_NPU_VOLUME_BUDGET="2000")
    assert done.stdout.strip() == "Budget(l1=1000, volume=2000) None"
    for name in ("OGP_NPU_L1_BUDGET", "OGP_NPU_VOLUME_BUDGET"):
        with monkeypatch.context() as context:
            context.setenv(name, "1 MB")
            with pytest.raises(ValueError, match=f"{name}: expected a count of bytes, 0 or more, got '1 MB'"):
                device._budget_of_environment()


def test_import_touches_no_device():
    code = """
import sys, torch
loaded = set(sys.modules)
name = torch._C._get_privateuse1_backend_name()
queried = []
for kind in ("cuda", "xpu", "mps"):
    getattr(torch, kind).is_available = lambda kind=kind: queried.append(kind)
torch.npu = type("npu", (), {"is_available": staticmethod(lambda: queried.append("npu"))})
import oil_gas_ops_prospect.conv3d_custom.functional
assert not queried and torch._C._get_privateuse1_backend_name() == name
assert not any(m.split(".")[0] == "torch_npu" or m.startswith("torch._dynamo") for m in set(sys.modules) - loaded)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_without_the_extension_one_warning_and_torch_operators():
    code = """
import sys, warnings, torch
sys.modules["oil_gas_ops_prospect._core"] = None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from oil_gas_ops_prospect.conv3d_custom import Conv3d, conv3d_backend, device
    from oil_gas_ops_prospect.conv3d_custom.functional import conv3d
    conv, x = Conv3d(2, 2, 3, padding=1, groups=2), torch.randn(1, 2, 4, 4, 4, requires_grad=True)
    conv(x).sum().backward()
    conv3d(x, conv.weight, groups=2).sum().backward()
assert len(caught) == 1 and "C core" in str(caught[0].message), caught
print(device.module_backend("cpu", x.dtype), device.function_backend("cpu", x.dtype))
try:
    with conv3d_backend("c"):
        conv(x)
except RuntimeError as error:
    print("refused" if "'c'" in str(error) else error)
"""
    done = python(code, OGP_CONV3D=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["native", "composite", "refused"]

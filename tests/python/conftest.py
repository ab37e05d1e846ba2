# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
from hypothesis import settings

from oil_gas_ops_prospect.conv3d_custom import conv3d_backend

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("long", deadline=None, max_examples=3000)


def pytest_configure(config):
    config.addinivalue_line("markers", "long: full size or minutes of work; `pytest -m long` runs them")
    settings.load_profile("long" if config.getoption("markexpr") == "long" else "suite")


# Each takes half a minute or more, mostly in other processes: these begin first, or one of two workers would wait.
LONG = ("test_bench", "test_fake_npu", "test_memory", "test_sweep")


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: item.path.stem not in LONG)
    if config.getoption("markexpr") == "":
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="long: run with -m long"))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(params=["c", "composite"])
def backend(request):
    with conv3d_backend(request.param):
        yield request.param

"""The build: which kernels are compiled, and how."""

import os

from lapsvm._ext import boxes


def test_the_compiled_kernel_is_in_use():
    assert boxes.__file__.endswith(".so")


def test_a_debug_run_tests_the_debug_build():
    expected = os.environ.get("LAPSVM_EXPECT_DEBUG") == "1"
    assert ("debug-site" in boxes.__file__) == expected

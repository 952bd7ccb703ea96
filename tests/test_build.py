"""The build: which kernels are compiled, and how."""

import os

from lapsvm._ext import boxes


def test_the_compiled_kernel_is_in_use():
    assert boxes.__file__.endswith(".so")


def test_a_run_tests_the_build_that_it_is_for():
    expected = os.environ.get("LAPSVM_EXPECT_SITE")
    for site in ("debug-site", "asan-site", "tsan-site"):
        assert (site in boxes.__file__) == (site == expected)

"""The build: which kernels are compiled, and how."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from lapsvm._ext import boxes

SOURCE = Path(__file__).parent.parent
BUILT = shutil.ignore_patterns("*.so", "*.pyd", "*.c", "*.cpp", "__pycache__")

NONE_FOR_ARRAYS = """
import importlib, pkgutil, re
import lapsvm._ext

def calls(kernel, name):
    for one in getattr(kernel, "__signatures__", {}).values():  # of a fused kernel, whose text names no types
        yield from ((one, [None] * count) for count in range(1, 12))
    signature = re.match(rf"{name}\\((.*?)\\)", getattr(kernel, "__doc__", None) or "", re.DOTALL)
    types = re.split(r",\\s*(?![^\\[]*\\])", signature[1]) if signature else []
    if any("[" in kind for kind in types):
        yield kernel, [None if "[" in kind else 1 for kind in types]

for module in pkgutil.iter_modules(lapsvm._ext.__path__):
    for name, kernel in vars(importlib.import_module(f"lapsvm._ext.{module.name}")).items():
        for called, arguments in calls(kernel, name):
            try:
                called(*arguments)
            except (TypeError, ValueError):
                print(name, flush=True)
            else:
                print(name, "took None", flush=True)
"""


def test_the_compiled_kernel_is_in_use():
    assert boxes.__file__.endswith(".so")


@pytest.mark.parametrize("name", ["lapsvm", "datasets", "pipelines"])
def test_the_package_holds_every_file_of_its_folders(name):
    installed = Path(find_spec("lapsvm" if name == "lapsvm" else f"lapsvm.{name}").origin).parent
    files = [path.relative_to(SOURCE / name) for path in (SOURCE / name).rglob("*") if path.is_file()]
    wanted = {path for path in files if path.suffix not in (".so", ".pyd") and "__pycache__" not in path.parts}
    assert {path for path in wanted if not (installed / path).is_file()} == set()


def test_a_run_tests_the_build_that_it_is_for():
    expected = os.environ.get("LAPSVM_EXPECT_SITE")
    for site in ("asan-site", "tsan-site"):
        assert (site in boxes.__file__) == (site == expected)


def test_cythons_code_for_arrays_is_compiled_once():
    modules = Path(boxes.__file__).parent.glob("*.so")
    assert [path.name.split(".")[0] for path in modules if b"_memoryviewslice" in path.read_bytes()] == [
        "cython_arrays"
    ]


def test_no_kernel_takes_none_for_an_array():
    done = subprocess.run([sys.executable, "-c", NONE_FOR_ARRAYS], capture_output=True, text=True, check=False)
    names = done.stdout.split()
    assert done.returncode == 0, f"ended after {names[-1:]}"
    assert {"neighbours", "pack", "nms", "describe", "most_violated"} <= set(names)
    assert "took" not in names


@pytest.mark.skipif(find_spec("Cython") is None, reason="what builds the kernels is not installed")
@pytest.mark.parametrize(("variable", "language"), [("CC", "C"), ("CXX", "C++")])
def test_a_missing_compiler_is_said_before_any_work(variable, language):
    line, named = [sys.executable, "setup.py", "build_ext"], {variable: "no-such++ -O2"}
    result = subprocess.run(line, cwd=SOURCE, env=os.environ | named, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert f"needs a {language} compiler to build its kernels, but 'no-such++' is not there" in result.stderr


@pytest.mark.skipif(find_spec("Cython") is None, reason="what builds the kernels is not installed")
@pytest.mark.parametrize("jobs", ["0", "-2", "1.5", "many"])
def test_a_build_refuses_a_number_of_jobs_that_is_none(jobs):
    line, named = [sys.executable, "setup.py", "build_ext"], {"LAPSVM_BUILD_JOBS": jobs}
    result = subprocess.run(line, cwd=SOURCE, env=os.environ | named, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"LAPSVM_BUILD_JOBS must be a whole number from 1 on, not {jobs!r}.\n"


@pytest.mark.parametrize("module", ["lapsvm", "lapsvm.ranking", "lapsvm.pipelines"])
def test_the_folder_of_the_source_is_told_from_the_installed_package(tmp_path, module):
    """Python started there finds the folder before the installed package."""
    shutil.copytree(SOURCE / "lapsvm", tmp_path / "lapsvm", ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    line = [sys.executable, "-c", f"import {module}"]
    result = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    sentence = result.stderr.splitlines()[-1]
    assert sentence.startswith(f"ImportError: {tmp_path / 'lapsvm'} is the source of lapsvm without its compiled")
    assert "start Python in another folder" in sentence


@pytest.mark.skipif(find_spec("Cython") is None, reason="what builds the kernels is not installed")
def test_equal_sources_give_an_equal_archive(tmp_path):
    archives = []
    for name, mask in (("one", 0o022), ("another", 0o077)):
        folder = tmp_path / name
        before = os.umask(mask)
        for part in ("lapsvm", "pipelines", "datasets", "cython_ext"):
            shutil.copytree(SOURCE / part, folder / part, copy_function=shutil.copyfile, ignore=BUILT)
        for part in ("setup.py", "pyproject.toml", "MANIFEST.in", "constraints.txt", "README.md", "LICENSE", "NOTICE"):
            shutil.copyfile(SOURCE / part, folder / part)
        os.umask(before)
        line, epoch = [sys.executable, "setup.py", "-q", "sdist"], {"SOURCE_DATE_EPOCH": "1000000000"}
        subprocess.run(line, cwd=folder, env=os.environ | epoch, capture_output=True, check=True)
        archives += [path.read_bytes() for path in (folder / "dist").iterdir()]
        time.sleep(1.1)  # the times of an archive have seconds
    assert archives[0] == archives[1]


@pytest.mark.skipif(find_spec("Cython") is None, reason="what builds the kernels is not installed")
def test_a_wheel_says_what_it_is_made_of(tmp_path, monkeypatch):
    from setuptools.dist import Distribution

    monkeypatch.chdir(SOURCE)
    spec = importlib.util.spec_from_file_location("lapsvm_setup", SOURCE / "setup.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    distribution = Distribution({"name": "lapsvm", "version": "1.2.3", "install_requires": ["numpy>=2.0", "a-b.c"]})
    build.WheelWithBill(distribution).write_wheelfile(str(tmp_path))
    bill = json.loads((tmp_path / "sboms" / "lapsvm.cdx.json").read_text())
    assert (bill["bomFormat"], bill["metadata"]["component"]["purl"]) == ("CycloneDX", "pkg:pypi/lapsvm@1.2.3")
    refs = [one["bom-ref"] for one in bill["components"]]
    assert refs == ["compiled cython", "compiled numpy", "a-b.c", "numpy"]
    assert bill["dependencies"] == [{"ref": "lapsvm", "dependsOn": refs}]
    assert all(one["purl"].startswith("pkg:pypi/") for one in bill["components"])
    assert (tmp_path / "WHEEL").is_file()

"""Entry points of an installed package that cannot be loaded, cannot be called, or fail: a sentence that names them."""

import sys
from textwrap import dedent

import numpy as np
import pytest
from lapsvm.pipelines.commands.verbs import main
from PIL import Image

from lapsvm.catalog import open_dataset
from lapsvm.errors import InputError, OptionError
from lapsvm.features import open_extractor
from lapsvm.objectness import open_objectness
from lapsvm.windows import methods, propose

PICTURE = np.zeros((20, 30, 3), np.uint8)
DOORS = {
    "lapsvm.extractors": open_extractor,
    "lapsvm.objectness": open_objectness,
    "lapsvm.windows": lambda name: propose(PICTURE, name),
    "lapsvm.datasets": lambda name: open_dataset(name, "."),
}
MODULE = """
    NUMBER = 3

    def raises(*arguments, **options):
        raise RuntimeError("no camera.")

    def ends(*arguments, **options):
        raise SystemExit(0)

    def refuses(*arguments, **options):
        from lapsvm.errors import InputError
        raise InputError("the camera must be on, got off.")

    def bare():
        return 3

    def keyword(*, needed):
        return 3
"""
POINTS = {
    "nomodule": "no_such_module:make",
    "noname": "broken_package:make",
    "number": "broken_package:NUMBER",
    **{name: f"broken_package:{name}" for name in ("raises", "ends", "refuses", "bare", "keyword")},
}


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """Install a package whose entry points, the same in every group, are broken."""
    info = tmp_path / "broken_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in POINTS.items()]
    (info / "entry_points.txt").write_text("\n".join(line for group in DOORS for line in (f"[{group}]", *lines)))
    (tmp_path / "broken_package.py").write_text(dedent(MODULE))
    monkeypatch.syspath_prepend(tmp_path)
    methods._find_point.cache_clear()
    methods._load_source.cache_clear()
    yield
    sys.modules.pop("broken_package", None)


@pytest.mark.parametrize("group", DOORS)
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("nomodule", "cannot be loaded, for ModuleNotFoundError: No module named 'no_such_module'."),
        ("noname", "cannot be loaded, for AttributeError: module 'broken_package' has no attribute 'make'."),
        ("raises", "failed with RuntimeError: no camera."),
        ("ends", "failed with SystemExit: 0."),
    ],
)
def test_what_is_broken_is_named_with_its_package_and_error(group, name, error):
    with pytest.raises((OptionError, ValueError)) as refused:
        DOORS[group](name)
    sentence = f"entry point {name} = {POINTS[name]} of the package broken-package {error}"
    assert str(refused.value).removeprefix(f"extractor '{name}': ").removeprefix(f"objectness '{name}': ") == sentence


@pytest.mark.parametrize("group", DOORS)
def test_an_error_of_ours_passes_as_it_is(group):
    with pytest.raises(InputError, match="the camera must be on, got off"):
        DOORS[group]("refuses")


@pytest.mark.parametrize(
    ("group", "name", "sentence"),
    [
        ("lapsvm.datasets", "bare", "data set 'bare': the function must take a folder and options, got bare = broken_"),
        ("lapsvm.datasets", "number", "data set 'number': the function must take a folder and options, got number = "),
        ("lapsvm.extractors", "number", "extractor 'number': the function must take options, got number = broken_pack"),
        ("lapsvm.extractors", "keyword", "extractor 'keyword': missing a required argument: 'needed'; its options are"),
        ("lapsvm.objectness", "number", "objectness 'number': number must be made without arguments: 3 is not a call"),
        ("lapsvm.windows", "number", "method 'number' must be a function of a picture, a mode, a seed and a number of"),
        ("lapsvm.windows", "bare", "method 'bare' must be a function of a picture, a mode, a seed and a number of thr"),
    ],
)
def test_what_cannot_be_called_is_refused_with_the_rule(group, name, sentence):
    with pytest.raises(InputError, match=f"^{sentence}.*[.]$"):
        DOORS[group](name)


@pytest.mark.parametrize("options", [["--data", "nomodule"], ["--extractor", "nomodule"], ["--windows", "nomodule"]])
def test_the_command_line_says_it_in_one_line(options, tmp_path, capfd):
    given = {"--data": "folder", "--extractor": "hog"} | dict([options])
    rng = np.random.default_rng(0)
    for name in ("cat", "none"):
        for set_name in ("trainval", "test"):
            folder = tmp_path / "data" / set_name / name
            folder.mkdir(parents=True)
            Image.fromarray(rng.integers(0, 256, PICTURE.shape, dtype=np.uint8)).save(folder / f"{set_name}.png")
    words = [word for pair in given.items() for word in pair]
    with pytest.raises(SystemExit) as ended:
        main(["run", "--root", str(tmp_path / "data"), "--out", str(tmp_path / "run"), *words])
    assert ended.value.code == 2
    line = "entry point nomodule = no_such_module:make of the package broken-package cannot be loaded, for Module"
    printed = capfd.readouterr().err
    assert line in printed
    assert printed.count("lapsvm: ") == 1
    assert "Traceback" not in printed

"""Sources of an installed package that fail, or give what they must not, while they work: a sentence names them."""

from itertools import product
from textwrap import dedent

import numpy as np
import pytest
from lapsvm.pipelines.commands.verbs import main
from PIL import Image

from lapsvm.catalog import open_dataset
from lapsvm.errors import DataError, InputError, LapsvmError
from lapsvm.features import PooledNetwork, open_extractor
from lapsvm.objectness import open_objectness

MODULE = """
    import numpy as np
    from lapsvm.catalog import ImageRecord
    from lapsvm.features import Block, PooledNetwork

    def fails(*arguments, **options):
        raise RuntimeError("no camera.")

    FAULTS = {
        "raises": lambda good: fails(),
        "none": lambda good: None,
        "texts": lambda good: np.array([["a"]]),
        "flat": lambda good: np.asarray(good).ravel(),
        "short": lambda good: np.asarray(good)[..., :-1],
        "nan": lambda good: np.asarray(good) * np.nan,
    }

    def windows(fault):
        def propose(image, mode, seed, threads):
            boxes = np.array([[0, 0, 20, 20], [5, 5, 30, 30]])
            return FAULTS[fault](boxes) if len(image) == 40 else boxes  # others are tried before a run begins
        return propose

    def extractor(fault):
        class Sides:
            dim, blocks = 2, (Block(2),)
            def describe(self):
                return {"kind": "sides"}
            def __call__(self, pixels, boxes):
                return FAULTS[fault](np.ones((len(boxes), 2), np.float32))
        return Sides

    def objectness(fault):
        class Centre:
            def describe(self):
                return {"kind": "centre"}
            def regions(self, pixels):
                return FAULTS[fault](np.array([[5.0, 5, 20, 20]]))
            def map(self, pixels):
                return FAULTS[fault](np.array([[0.0, 1], [0, 0]]))
        return Centre

    class Silent:
        def describe(self):
            fails()
        def regions(self, pixels):
            return []

    class Wordless(Silent):
        def describe(self):
            return None

    class Network:
        runtime, fixed_size, seen = {"name": "mine"}, None, 0
        def __init__(self, fault):
            self.fault = fault
        def run(self, batch):
            self.seen += 1
            good = batch[:, :, ::4, ::4]
            if self.seen < 4:  # while it is opened
                return {"map": good}
            return FAULTS[self.fault](good) if self.fault in ("raises", "none") else {"map": FAULTS[self.fault](good)}

    def network(fault="raises"):
        return PooledNetwork(Network(fault), "hash", output="map", size=64)

    def reader(fault):
        class Reader:
            name, classes, sets = "mine", ("disc",), ("trainval",)
            def __init__(self, root, **options):
                self.root = root
            def records(self, set_name):
                return {"raises": fails, "none": lambda: None, "other": lambda: [3]}[fault]()
            def ground_truth(self, set_name):
                return {"raises": fails, "none": lambda: {"disc": None}, "other": lambda: 3}[fault]()
            def masks(self, set_name):
                fails()
        return Reader

    def nothing(*arguments, **options):
        return None

    for fault in FAULTS:
        globals()["w_" + fault], globals()["f_" + fault], globals()["o_" + fault] = (
            windows(fault), extractor(fault), objectness(fault))
    for fault in ("raises", "none", "other"):
        globals()["d_" + fault] = reader(fault)
"""
FAULTS = ("raises", "none", "texts", "flat", "short", "nan")
GROUPS = {
    "lapsvm.windows": [f"w_{fault}" for fault in FAULTS],
    "lapsvm.extractors": [*(f"f_{fault}" for fault in FAULTS), "network"],
    "lapsvm.objectness": [*(f"o_{fault}" for fault in FAULTS), "Silent", "Wordless"],
    "lapsvm.datasets": ["d_raises", "d_none", "d_other", "nothing"],
}
PICTURE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """Install a package with sources of every group that fail."""
    info = tmp_path / "failing_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failing-package\nVersion: 1.0\n")
    lines = [line for group, names in GROUPS.items() for line in (f"[{group}]", *(f"{n} = failing:{n}" for n in names))]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "failing.py").write_text(dedent(MODULE))
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def pictures(tmp_path):
    """Return a folder of pictures, six of a class and six of none."""
    for name, number in product(("disc", "background"), range(6)):
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "pictures"


def given(name):
    """Return the options that name a source, the sizes of HOG being fast."""
    kind = {"w": "--windows", "f": "--extractor", "o": "--objectness"}[name[0]]
    return [kind, name, *([] if kind == "--extractor" else ["--extractor", "hog?size=16"])]


@pytest.mark.parametrize("name", [f"{kind}_{fault}" for kind in "wfo" for fault in FAULTS])
def test_a_run_names_the_source_and_the_picture_in_one_line(pictures, tmp_path, capsys, name):
    options = ["--data", "folder", "--root", str(pictures), "--out", str(tmp_path / "RUN"), "--jobs", "1"]
    with pytest.raises(SystemExit) as ended:
        main(["extract", *options, "--recipe", "plain", "--max-windows", "20", "--quiet", *given(name)])
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert ended.value.code == 2
    assert name in line
    assert "picture " in line
    assert ("failed with RuntimeError: no camera" in line) == name.endswith("raises")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_map_that_is_none_is_refused_with_its_source(fault):
    source = open_objectness(f"o_{fault}")
    if fault in ("flat", "nan", "none", "texts", "raises"):
        with pytest.raises(LapsvmError, match=f"o_{fault}"):
            source.map(PICTURE)
    else:
        assert source.map(PICTURE).shape == (2, 1)


@pytest.mark.parametrize("name", ["Silent", "Wordless"])
def test_a_source_that_does_not_describe_itself_is_named(name):
    with pytest.raises(LapsvmError, match=name):
        open_objectness(name).describe()


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "short"])  # a map may have any columns
def test_a_network_of_a_package_that_fails_is_named(fault):
    extractor = open_extractor(f"network?fault={fault}")
    assert isinstance(extractor, PooledNetwork)
    with pytest.raises((DataError, InputError), match="network"):
        [sized(PICTURE, [[0, 0, 20, 20]]) for _ in range(4) for sized in (extractor, extractor.at_size(96))]


@pytest.mark.parametrize("fault", ["raises", "none", "other"])
def test_a_reader_that_fails_is_named(tmp_path, fault):
    dataset = open_dataset(f"d_{fault}", tmp_path)
    for call in (dataset.records, dataset.ground_truth, dataset.masks):
        with pytest.raises(DataError, match=f"d_{fault}"):
            call("trainval")
    assert not hasattr(dataset, "ignored_files")


def test_what_is_no_data_set_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"^data set 'nothing' must have name, .*, but NoneType has no name\.$"):
        open_dataset("nothing", tmp_path)

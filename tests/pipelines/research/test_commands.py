"""Every command of `benchmarks/` prints its table on small made data, in the form of the page that has its figures."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from ...twins.networks import onnx_network
from ..calls import done
from .pages import BENCHMARKS, LIST, assert_one_table_changed, page_of, rows_of

ELSEWHERE = {  # command -> the test that calls it
    **{f"papers/{name}.py": "pipelines/research/test_papers.py"
       for name in ("everything", "layerwise", "supervised", "thesis", "toppush", "training")},
    "papers/toppush_protocol.py": "pipelines/research/test_papers.py",
    "passes/ten_million.py": "pipelines/research/test_papers.py",
    "deep/frozen_features.py": "nn/test_frozen_features.py",
    "defects/kinds_left_out.py": "pipelines/commands/test_unknown.py",
    "defects/how_far.py": "pipelines/research/test_defects.py",
    "protocols/characters.py": "pipelines/research/test_protocols.py",
    "protocols/learners.py": "pipelines/research/test_protocols.py",
    "protocols/supervision.py": "pipelines/research/test_protocols.py",
    "recipes/ablation.py": "pipelines/research/test_ablation.py",
    "recipes/baselines.py": "pipelines/research/test_baselines.py",
    "recipes/drawn_defects.py": "datasets/test_drawn_defects.py",
    "recipes/drawn_small.py": "datasets/test_drawn_small.py",
    "recipes/false_alarms.py": "pipelines/research/test_false_alarms.py",
    "recipes/table.py": "pipelines/research/test_recipe_variants.py",
}  # fmt: skip
TINY = ["--extractor", "hog", "--windows", "grid", "--max-windows", "30", "--C", "1", "--folds", "2", "--refine", "0"]


def test_random_labels_of_a_normal_map_have_a_row_for_each_source(script, rows):
    found = rows(script("learning/normal_random_labels.py", ORDERS=200), "--quick")
    assert set(found) > {"none", "normal", "random order", "normal - none"}
    assert float(found["normal - none"][1]) == pytest.approx(
        float(found["normal"][1]) - float(found["none"][1]), abs=0.002
    )
    assert found["random order"][3] == "2"


def test_misses_and_false_alarms_teach_in_rounds(script, rows, digits, tmp_path):
    options = ("--options", " ".join([*TINY, "--test-set", "none"]), "--share", "0.3", "--each", "4")
    found = rows(script("defects/teaching_rounds.py"), tmp_path, digits, "--kind", "six", "--rounds", "1", *options)
    before, after = (row for name, row in found.items() if name != "round")
    assert after[0].startswith("1: 4 missed")
    assert before[1].split(" of ")[1] == after[1].split(" of ")[1]


def test_bags(script, rows, tmp_path):
    """One instance of a positive bag lies apart: every bag is right, by either learner and with the kernel."""
    rng, labels = np.random.default_rng(0), np.arange(20) % 2
    numbers = np.repeat(np.arange(1, 21), 4)
    instances = rng.normal(size=(80, 3)) + 9 * (labels[numbers - 1] * (np.arange(80) % 4 == 2))[:, None]
    (tmp_path / "made").mkdir()
    for name, (key, table) in {"X": ("X", instances), "B": ("Bag2", numbers), "L": ("bagI", labels)}.items():
        savemat(tmp_path / "made" / f"{name}.mat", {key: table})
    module = script("protocols/bags.py", FOLDS=2, COMPONENTS=10, WIDTHS=(1.0,))
    module.SETS = {"made": module.BagSet("made", "X", "B", "L", (0.5, 0.5, 0.5))}
    chosen = ["--root", tmp_path, "--sets", "made", "--repeats", "1", "--losses", "AP,either,hinge"]
    row = rows(module, *chosen)["made"]
    assert row[:5] == ["made", "20", "hinge", "Gaussian", "1.000"]
    assert [float(row[6]), float(row[7])] == [1, 1]


def test_every_command_has_a_test():
    listed = re.findall(r"^\| `(\S+)` \|", LIST.read_text("utf-8"), re.MULTILINE)
    own = set(re.findall(r'"(\w+/\w+\.py|\w+\.py)"', Path(__file__).read_text("utf-8")))
    assert set(listed) <= own | set(ELSEWHERE)
    assert [name for name in listed if "__main__" not in (BENCHMARKS / name).read_text("utf-8")] == []
    for name, test in ELSEWHERE.items():
        assert Path(name).stem in (Path(__file__).parents[2] / test).read_text("utf-8")


def test_every_command_for_a_page_is_run_with_it():
    texts = {str(path.relative_to(BENCHMARKS)): path.read_text("utf-8") for path in BENCHMARKS.rglob("*.py")}
    wired = {name for name, text in texts.items() if "into: Into" in text and "__main__" in text}
    tree = ast.parse(Path(__file__).read_text("utf-8"))
    tests = [ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef)]
    with_page = [
        text for text in tests if "rows(script(" in text or "rows(module" in text or "page_of(command)" in text
    ]
    ran = set(re.findall(r"'(\w+/\w+\.py|\w+\.py)'", "".join(with_page)))
    for name in wired - ran:
        text = (Path(__file__).parents[2] / ELSEWHERE[name]).read_text("utf-8")
        assert "PAGE.read_bytes()" in text or "rows(script(" in text
    assert len(wired) > 10


@pytest.mark.parametrize(("work", "first"), [("limit", "20"), ("overhead", "ap auto"), ("memory", "ap")])
def test_inference(script, rows, work, first):
    assert first in rows(script("papers/inference.py", LARGEST=20_000, LIMITS=[(20, 300, 0.5, 2)]), work)


def test_solver(script, rows):
    head, *cases = rows(script("papers/solver.py")).values()
    assert head[-1] == "certified gap"
    assert all(float(row[-1]) <= float(row[0].split(", ")[-1]) for row in cases)


def test_growth(script, rows):
    found = rows(script("passes/growth.py", WINDOWS=2000, PER_BAG=50), "--largest", 2000, "--rounds", 1)
    assert list(found) == ["windows", "2,000", "4,000", "1,000", "500", "250"]


@pytest.mark.parametrize(
    ("name", "work", "constants"),
    [
        ("passes/gpu.py", [], {"RUNS": (("float16", 4000, (1,)),)}),
        ("passes/gpu_training.py", [], {"PICTURES": 60, "PER_BAG": 100, "DIM": 24, "CLASSES": 2}),
        ("torch_losses.py", ["gpu"], {"SIZES": ((20, 180),), "GPU_ROUNDS": 2}),
        ("pictures/gpu_extraction.py", [], {"CASES": (), "ROUNDS": 1}),
    ],
)
def test_commands_for_a_gpu_say_that_there_is_none(script, capsys, name, work, constants):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(SystemExit) as ended:
        script(name, **constants).main(work)
    said = capsys.readouterr().out
    skipped = said.endswith("Skipped: this command needs a GPU, and torch sees none.\n")
    assert (ended.value.code, skipped, "|" in said) == (0, not torch.cuda.is_available(), torch.cuda.is_available())


@pytest.mark.parametrize(
    ("name", "work", "constants"),
    [
        ("passes/gpu.py", [], {"RUNS": (), "has_kernels": lambda _: True}),
        ("torch_losses.py", ["gpu"], {"SIZES": (), "gpu_clock": lambda _: None}),
    ],
)
def test_commands_for_a_gpu_have_the_titles_of_their_page(script, rows, name, work, constants):
    pytest.importorskip("torch", reason="torch is not installed")
    found = rows(script(name, print_gpu=lambda _: None, **constants), *work)
    assert len(found) == 1


def test_losses_on_a_gpu_are_compared_with_the_processors(script):
    """The processor stands for the GPU, too."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = script("torch_losses.py")
    scores, labels = map(torch.from_numpy, module.example(20, 180))
    module.check(scores, labels)
    module.RankRampLoss = lambda: lambda scores, _: scores.sum() * torch.rand(())
    with pytest.raises(AssertionError):
        module.check(scores, labels)


def test_gpu_extraction(script, tmp_path):
    """The processor stands for the GPU, too."""
    pytest.importorskip("torch", reason="torch is not installed")
    module = script("pictures/gpu_extraction.py", ROUNDS=1)
    text = f"{module.RESIDUAL}&size=64"
    for case in (module.Case("a", text, 2, 9), module.Case("b", text, 2, 9, True)):
        *_, pictures, windows, here, there, _, differ = module.row(case, "cpu", 2)
        assert (pictures, windows, differ) == (2, "9", "0.0e+00")
        assert float(here) > 0 < float(there)


def test_gpu_training(script):
    """On torch's device for the processor: a third of the windows fits, and the weights are the same."""
    pytest.importorskip("torch", reason="torch is not installed")
    module = script("passes/gpu_training.py", PICTURES=60, PER_BAG=100, DIM=24, CLASSES=2, SHARE=0.3)
    found = list(module.rows([("cpu", 1 << 20), ("cpu", 1 << 20)]))
    assert [row[0] for row in found] == ["processor", "GPU", "GPU, a third fits"]
    assert [len(row) for row in found] == [len(module.TITLES.split("|"))] * 3
    assert {row[-1] for row in found} == {"yes"}


@pytest.mark.parametrize(
    ("work", "first"),
    [("time", "hinge ap"), ("overhead", "forward"), ("memory", "ramp ap"), ("agreement", "ap"), ("head", "auc")],
)
def test_torch_losses(script, rows, work, first):
    pytest.importorskip("torch", reason="torch is not installed")
    module = script("torch_losses.py", LARGE=(20, 200), STEPS=20, CASES=2, ROUNDS=2, CALLS=2)
    assert first in rows(module, work)


@pytest.mark.slow
def test_two_passes_and_two_processes_give_the_gradient_of_one():
    pytest.importorskip("torch", reason="torch is not installed")
    line = [sys.executable, BENCHMARKS / "torch_losses.py", "passes"]  # its processes import it by its file
    found = rows_of(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    differences = [float(row[1]) for row in list(found.values())[1:]]
    assert len(differences) == 2
    assert max(differences) < 1e-5


def test_interval_coverage(script, rows, finished):
    module = script("learning/interval_coverage.py", GROUPS=(5,), DISTANCES=(1.0,), TRUE_SHARES=(0.3, 0.5, 0.7))
    found = rows(module, finished, "--quick")
    assert {"development sets", "a share", "mean share", "difference of shares", "ap area"} <= found.keys()
    assert {"image auroc, 50% positive", "mean image ap, 20% positive", "image auroc, unequal groups"} <= found.keys()
    cells = [cell for row in found.values() for cell in row[1:] if "," in cell]
    assert all(0 <= float(cell.split(" ")[0]) <= 1 for cell in cells)


def test_alarm_promises(script, rows):
    module = script("learning/alarm_promises.py", SETTINGS=((30, 40, 0.0), (30, 40, 1.5)), SIZES=(5, 20))
    chance, strong = list(rows(module, "pictures", "--quick").values())[1:]
    assert float(strong[1]) > 0.5
    assert float(strong[5]) > float(strong[4]) + 0.1
    assert float(strong[3].split()[0]) < 0.2
    assert abs(float(chance[5]) - 0.5) < 0.05
    for _, *cells in list(rows(module, "groups", "--quick").values())[1:]:
        assert min(float(cell.split()[0]) for cell in cells) > 0.88
    for _, *kept in list(rows(module, "confidence", "--quick").values())[1:]:
        assert (float(kept[1]) >= float(kept[0]), float(kept[4]) < float(kept[3])) == (True, True)


def test_page_steps(script, rows, finished, tmp_path):
    (tmp_path / "runs" / "digits").mkdir(parents=True)
    (tmp_path / "runs" / "digits" / "best").symlink_to(finished)
    line = {"set": "digits", "variant": "best", "on": "trainval", "classes": {"six": {"corloc": 0.7}}}
    (tmp_path / "results.jsonl").write_text(json.dumps(line))
    found = rows(script("learning/page_steps.py"), tmp_path)
    assert found["classes"][1:] == ["0", "1", "0"]
    assert found["Too few pictures"][2] == "1"


def test_steps_of_a_page_are_counted_by_how_many_boxes_are_right(script):
    module = script("learning/page_steps.py")
    right = ("a", 0.49, ("Few", "Weak")), ("b", 0.5, ("Few",)), ("c", 0.8, ())
    assert list(module.rows([module.Shown("s", *one) for one in right])) == [
        ["classes", 1, 1, 1], ["Few", 1, 1, 0], ["Weak", 1, 0, 0], ["none", 0, 0, 1],
    ]  # fmt: skip


def test_window_recall(script, rows, digits):
    module = script("pictures/window_recall.py")
    found = rows(module, digits, "--pictures", 3, "--side", 128)
    assert [name.partition(": ")[2] for name in list(found)[1:]] == ["mixed", "small:768"]
    (row,) = (row for name, row in found.items() if name.endswith(": mixed"))
    of_counts = np.array([[float(figure) for figure in cell.split(", ")] for cell in row[2:]])
    assert float(row[1]) > 0
    assert of_counts.shape == (2, 3)
    assert (np.diff(of_counts, axis=0) >= 0).all()
    assert (of_counts[:, 0] >= of_counts[:, 1]).all()
    assert any(name.startswith("six, ") for name in rows(module, f"{digits}:six", "--pictures", 3))


def test_whole_run(tmp_path):
    """In a process of its own, because it replaces functions by timed ones."""
    command, copy = BENCHMARKS / "pictures/whole_run.py", tmp_path / "page.md"
    copy.write_bytes(page_of(command).read_bytes())
    words = ["--pictures", "9", "--extractor", "hog", "--jobs", "1", "--into", copy]
    printed = subprocess.run([sys.executable, command, *words], capture_output=True, text=True, check=True).stdout
    assert_one_table_changed(page_of(command), copy, printed)
    found = rows_of(printed)
    assert {"all", "proposals", "decode", "refine"} <= set(found)
    assert float(found["detect"][-1]) > 0
    assert 0 < float(found["all"][2]) <= float(found["all"][1]) + 0.1  # seconds of one thread are some of all


def test_voc_rehearsal(script, rows, tmp_path):
    pytest.importorskip("psutil", reason="psutil comes with dask, which is not installed")
    module = script("pictures/voc_rehearsal.py", EVERY=0.05)
    text, pictures = tmp_path / "voc2007_text", tmp_path / "voc2007_vehicles_cat" / "JPEGImages"
    (text / "ImageSets" / "Main").mkdir(parents=True)
    pictures.mkdir(parents=True)
    for set_name, first, file in (("trainval", 0, "voc2007.txt"), ("test", 8, "voc2007test.txt")):
        ids = [f"{first + number:06}" for number in range(8)]
        (text / file).write_text("".join(f"{one}.jpg 9 9 40 40 {int(one) % 2}\n" for one in ids))
        (text / "ImageSets/Main" / f"{set_name}.txt").write_text("\n".join(ids))
        for number, name in enumerate(module.CLASSES):
            lines = [f"{one} {1 if int(one) % 2 == number else -1}\n" for one in ids]
            (text / "ImageSets/Main" / f"{name}_{set_name}.txt").write_text("".join(lines))
    noise = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    Image.fromarray(noise).save(pictures / "000000.jpg")
    options = [*TINY, "--classes", "aeroplane,bicycle", "--quiet"]
    assert {"train", "evaluate"} <= set(rows(module, tmp_path, tmp_path / "OUT", "--jobs", 1, "--", *options))


def test_onnx_file(script, rows, digits, tmp_path):
    kernel = np.random.default_rng(0).normal(size=(8, 3, 16, 16)).astype(np.float32) / 50
    nodes = [("Conv", "picture kernel", "map", {"strides": [16, 16]})]
    network = onnx_network(nodes, {"picture": [1, 3, "h", "w"]}, {"map": [1, 8, "r", "c"]}, {"kernel": kernel})
    (tmp_path / "n.onnx").write_bytes(network)
    run, file = tmp_path / "RUN", tmp_path / "detector.onnx"
    words = ["--recipe", "plain", "--extractor", f"onnx:{tmp_path}/n.onnx?size=96", *TINY[2:-2]]
    done("run", "--data", "voc", "--root", digits, "--out", run, "--classes", "six,three", "--quiet", *words)
    done("export", "--out", run, "--format", "onnx", "--to", file, "--inputs", "all", "--no-comparison")
    _, own, of_file, given = rows(script("exported/onnx_file.py"), run, file, digits, "--pictures", 2).values()
    assert own[:3] == ["of `predict`", *given[1:3]]
    assert all(0 <= float(row[1]) <= 1 <= float(row[-1]) for row in (own, of_file, given))


def test_drawn_kinds(script, tmp_path):
    done(tmp_path, "--pictures", 6, "--size", 320, 240, command=script("recipes/drawn_kinds.py").main)
    assert len(list((tmp_path / "JPEGImages").iterdir())) == 12


def test_mixed_set(script, digits, tmp_path):
    words = [digits, "mine", digits, tmp_path / "OUT", "--without", "six,three", "--every", 2]
    done(*words, command=script("recipes/mixed_set.py").main)
    assert (tmp_path / "OUT" / "ImageSets" / "Main" / "mine_trainval.txt").stat().st_size


def test_repetitions(script, rows, finished, tmp_path):
    words = ["--row", f"first={finished}", "--row", f"second={finished}", "--out", tmp_path, "--draws", 5]
    words += ["--measures", "ap_11point,corloc,image_ap"]
    assert {"first", "second", "difference to first"} <= set(rows(script("recipes/repetitions.py"), *words))


def test_simulated_review(script, rows, finished, tmp_path):
    found = rows(script("recipes/simulated_review.py"), tmp_path, finished, "--verdicts", "2")
    assert found[str(finished)][1:4] == ["2", "random", "1"]
    assert all(0 <= float(cell) <= 1 for cell in found[str(finished)][4:])


def test_supervised_ceiling(script, rows, finished):
    found = rows(script("recipes/supervised_ceiling.py"), finished, "--C", 0.1)
    assert all(0 <= float(found[measure][-1]) <= 1 for measure in ("ap_11point", "ap_area", "corloc"))


def test_variants(script, digits, tmp_path, capsys):
    settings = {"features.extractors": '["hog"]', "windows.method": '"grid"', "windows.max_windows": "30"}
    settings |= {"objectness.source": '"none"', "refine.rounds": "0", "train.C": "[1.0]", "train.folds": "2"}
    settings |= {"data.classes": '["six", "three"]'}
    (tmp_path / "base.toml").write_text(
        "[base]\n" + "".join(f'"{name}" = {value}\n' for name, value in settings.items())
    )
    words = [tmp_path, tmp_path / "OUT", "--sets", "tiny", "--extra", f"tiny={digits}", "--variants", "best,ceiling"]
    done(*words, "--base", tmp_path / "base.toml", "--threads", 1, command=script("recipes/variants.py").main)
    lines = [json.loads(line) for line in (tmp_path / "OUT" / "results.jsonl").read_text().splitlines()]
    assert [line["variant"] for line in lines] == ["best", "ceiling"]
    said = capsys.readouterr().out
    assert all(f"tiny, {line['variant']}: " in said for line in lines)


def test_install_time(script, rows, monkeypatch):
    """Nothing is installed here; the rows are those of what would be."""
    module = script("install_time.py")
    done = subprocess.CompletedProcess([], 0, b"README.md\0")
    monkeypatch.setattr(module.subprocess, "run", lambda *_, **__: done)
    assert list(rows(module, "--extras", "photos", "--demo")) == [
        "what",
        "`pip install .[photos]`",
        "kernels",
        "`make demo`",
    ]

"""The page of a run on good and defective products, and of runs that people have looked at."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from lapsvm.pipelines.figures.maps.objectness_maps import ObjectnessMaps
from lapsvm.pipelines.products.held_out import read_held_out
from lapsvm.pipelines.run.folder import RunFolder
from PIL import Image

from lapsvm.catalog import ImageRecord
from lapsvm.detection import Detector
from lapsvm.detection.detector import provenance_value
from lapsvm.evaluation.measures import Shown, shown_in


def page_of(run):
    return (run / "page" / "index.html").read_text()


def words(source):
    return " ".join(re.sub(r"<style>.*</style>|<[^>]*>", " ", source, flags=re.DOTALL).split())


def test_the_figures_of_evaluation_stand_on_the_page(inspected):
    page, sets = words(page_of(inspected)), json.loads((inspected / "evaluation.json").read_text())["sets"]
    measures = [measure.key for measure in shown_in(Shown.DEFECTS)]
    intervals = sets["test"]["intervals"]

    def cells(row, known):
        """Return the figures of a row, those of whole pictures with their intervals."""
        for key in measures:
            yield f"{row[key]:.3f}" if row.get(key) is not None else "-"
            if key in known:
                yield f"{known[key]['low']:.3f} to {known[key]['high']:.3f}"

    for name, row in sets["test"]["classes"].items():
        assert {"image_auroc", "image_ap"} <= intervals["classes"][name].keys()
        assert f"{name} {' '.join(cells(row, intervals['classes'][name]))}" in page
    assert f"any defect {' '.join(cells(sets['test']['any_class'], intervals['any_class']))}" in page


def test_the_threshold_is_advised_until_it_is_chosen(inspected_copy, command):
    line = f"lapsvm threshold --out {inspected_copy} --max-false-alarms 0.05"
    assert command("report", "--out", inspected_copy).status == 0
    assert line in page_of(inspected_copy)
    assert command(*line.split()[1:]).status == 0  # and the page knows it
    page, stored = words(page_of(inspected_copy)), json.loads((inspected_copy / "models/threshold.json").read_text())
    assert "lapsvm threshold" not in page
    assert f"from a probability of {stored['probability']:.3g} on" in page
    good = stored["held_out"]["ok"]
    interval = f"({100 * good['low']:.1f} to {100 * good['high']:.1f} %)"
    assert f"by models that did not see the picture: {good['alarms']} of {good['of']} {interval}" in page


def test_a_threshold_of_other_models_is_not_shown_and_advised_again(inspected_copy, command):
    assert command("threshold", "--out", inspected_copy, "--max-false-alarms", "0.05").status == 0
    path = inspected_copy / "models/threshold.json"
    content = json.loads(path.read_text())
    content["models"]["spot"] = "0" * 32
    path.write_text(json.dumps(content))
    assert command("report", "--out", inspected_copy).status == 0
    assert "raises an alarm from" not in page_of(inspected_copy)
    assert "lapsvm threshold" in page_of(inspected_copy)
    path.write_text("broken")
    result = command("report", "--out", inspected_copy)
    assert (result.status, "The page shows no threshold." in result.err) == (0, True)


def test_misses_are_those_of_the_boxes_that_the_headline_counts(inspected_copy, command):
    """With a test set, too, the misses of training pictures are of models that did not see them."""
    assert command("report", "--out", inspected_copy).status == 0
    page, entry = words(page_of(inspected_copy)), json.loads((inspected_copy / "evaluation.json").read_text())
    assert "What the best box covers on trainval, by models that did not see the picture" in page
    for name, row in entry["sets"]["trainval"]["held_out"]["classes"].items():
        held_out = read_held_out(RunFolder(inspected_copy), name)
        n = int((held_out.y > 0).sum())
        assert f"{name} {n} {round(row['corloc'] * n)} " in page[page.index("What the best box covers") :]


def test_where_a_stage_fits_a_projection_the_page_lists_it(digits, fast, command, tmp_path):
    run = tmp_path / "RUN"
    assert command("run", "--data", "voc", "--root", digits, "--out", run, *fast, "--pca", 8).status == 0
    page = words(page_of(run))
    assert re.search(r"Wall time Stage Time (\w+ \S+ s )?projection [\d.]+ s extract", page)


# what stands out


class Brightest:
    """The box around what is bright stands out, and its map is the brightness."""

    def __init__(self):
        self.maps = 0

    def describe(self):
        return {"kind": "brightest"}

    def regions(self, pixels):
        rows, columns = np.nonzero(pixels.max(axis=2) > 128)
        return np.array([[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]], dtype=float)

    def map(self, pixels):
        self.maps += 1
        return pixels.max(axis=2) / np.float32(255)


def test_what_stands_out_is_shown_where_it_was_used_and_the_page_says_whether_it_helped(
    digits, tmp_path, fast, command, entry_point
):
    source = Brightest()
    run = tmp_path / "RUN"
    entry_point("lapsvm.objectness", "brightest", lambda: lambda: source)
    more = ["--refine", 1, "--objectness", "brightest", "--set", "objectness.classes=six"]
    result = command("run", "--data", "voc", "--root", digits, "--out", run, *fast, *more)
    assert result.status == 0, result.err
    six, three = (page_of(run).split('<article id="mistakes-of-')[number] for number in (1, 2))
    assert "Show what stands out" in six
    assert six.count('class="standing"') > 0
    assert "standing" not in three
    assert 0 < source.maps <= six.count('class="standing"')  # a picture's map is computed once
    text = words(page_of(run))
    model = Detector.load(run / "models" / "six.safetensors")
    standing = provenance_value(model, "result", "objectness", "stands_out")
    assert f"Boxes of six end where something stands out, as the settings say (objectness {standing:.2f})." in text
    assert "What stands out is not used: the settings name other classes." in text
    assert text.count("What stands out is marked by a source of your own, brightest.") == 1


def test_the_source_is_opened_for_the_first_map_and_asked_once_a_picture_by_any_number_of_threads(tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "a.png")
    opened, source = [], Brightest()
    maps = ObjectnessMaps(lambda: opened.append(1) or source)
    records = [ImageRecord(name, tmp_path / "a.png") for name in "ab"]
    assert opened == []
    for record in (*records, *records):
        assert maps.of_picture(record).shape == (2, 2)
    assert (len(opened), source.maps) == (1, 2)
    with ThreadPoolExecutor(8) as pool:
        at_once = ObjectnessMaps(lambda: opened.append(1) or source)
        list(pool.map(at_once.of_picture, records * 20))
    assert (len(opened), source.maps) == (2, 4)
    nothing = ObjectnessMaps(lambda: opened.append(2))
    assert [nothing.of_picture(record) for record in records] == [None, None]
    assert opened == [1, 1, 2]

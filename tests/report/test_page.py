"""The page as HTML: well formed, self-contained, accessible, escaped, and the same bytes each time."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from lapsvm.detection import ScoreMap
from lapsvm.errors import MissingError
from lapsvm.evaluation import MEASURES
from lapsvm.report import (
    CccpStep,
    ClassSummary,
    Contents,
    Curve,
    Example,
    LabelCounts,
    RunSummary,
    SetSummary,
    render_page,
    write_page,
)

VOID = {"meta", "link", "img", "br", "hr", "col", "input"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title></svg><b>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)//&lt;i&gt;",
]


class Page(HTMLParser):
    """Every tag with its attributes, the text, and a complaint for each tag that is not closed in order."""

    def __init__(self, source):
        super().__init__()
        self.is_broken = False  # by a <wbr>, where a name may be broken, which is no space
        self.tags, self.open, self.complaints, self.text = [], [], [], []
        self.feed(source)
        self.close()
        self.complaints += [f"{tag} is left open" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        if tag == "wbr":
            self.is_broken = True
            return
        self.tags.append((tag, dict(attrs)))
        if len(attrs) != len(dict(attrs)):
            self.complaints.append(f"{tag} has an attribute twice")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.complaints.append(f"{tag} is closed out of order")

    def handle_data(self, data):
        if self.is_broken:
            data = self.text.pop() + data
        self.is_broken = False
        self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    def values(self, attribute):
        return [attrs[attribute] for _, attrs in self.tags if attribute in attrs]


@pytest.fixture(scope="module")
def source(full_contents):
    return render_page(full_contents)


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def words(page):
    return " ".join(" ".join(page.text).split())


def test_the_page_is_well_formed(page):
    assert page.complaints == []
    ids = page.values("id")
    assert len(ids) == len(set(ids))


def test_links_lead_to_places_on_the_page(page):
    targets = [attrs["href"] for attrs in page.all("a")]
    assert len(targets) > 5
    assert {target.removeprefix("#") for target in targets} <= set(page.values("id"))


def test_nothing_is_asked_of_the_network_and_no_script_runs(source, page):
    addresses = [
        value for name in ("src", "href", "action", "data", "srcset", "xlink:href") for value in page.values(name)
    ]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert "url(" not in source
    assert "@import" not in source
    assert not page.all("script")
    policies = [attrs["content"] for attrs in page.all("meta") if "http-equiv" in attrs]
    assert policies == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]


def test_pictures_plots_and_tables_say_what_they_are(page):
    assert len(page.all("img")) > 100
    assert all(attrs["alt"].startswith("Picture ") for attrs in page.all("img"))
    drawings = page.all("svg")
    assert all("aria-label" in attrs or attrs.get("aria-hidden") == "true" for attrs in drawings)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in attrs for attrs in page.all("th"))


def test_headings_never_skip_a_level(page):
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_the_page_tells_the_numbers(page, full_contents):
    text = words(page)
    for name, row in full_contents.figures["test"]["classes"].items():
        assert f"{name} {row['ap_11point']:.3f} {row['ap_area']:.3f} {row['npos']} {row['image_ap']:.3f}" in text
    mean = sum(row["corloc"] for row in full_contents.figures["trainval"]["classes"].values()) / 5
    assert f"{mean:.3f}" in text
    for sentence in full_contents.warnings:
        assert sentence in text
    assert full_contents.summary.command in text
    assert "aeroplane no picture of the set trainval shows it" in text
    assert "train 1 min 05 s" in text


def test_the_means_at_the_head_keep_the_names_of_their_sets(make_summary, entry_of):
    summary = make_summary()
    summary = replace(summary, test=replace(summary.test, name="Val2017"))
    figures = {"Val2017": entry_of(bus={"image_ap": 0.5})}
    page = Page(render_page(Contents(summary, (ClassSummary("bus"),), figures=figures)))
    assert f"Image AP {MEASURES['image_ap'].sentence} on Val2017 0.500" in words(page)


def test_one_curve_and_two_training_plots_per_class(page):
    assert len([attrs for attrs in page.all("svg") if attrs.get("class") == "plot"]) == (1 + 2) * 5


def test_the_page_of_five_classes_stays_small(source):
    assert len(source.encode()) < 4e6


def named(name):
    """Contents in which everything that has a name has this one."""
    pixels = np.zeros((30, 40, 3), dtype=np.uint8)
    example = Example(name, lambda: pixels, [1, 2, 30, 20], 1.0, [[0, 0, 9, 9]], {name: [[5, 5, 9, 9]]}, name)
    steps, curve = (CccpStep(2.0, 1e-3, 4.0),), Curve([0.5], [1.0])
    result = ClassSummary(name, steps=steps, curve=curve, best=(example,), misses=(example,) * 9, stands_out=name)
    some_set, more = SetSummary(name, 3, True, 5, {name: LabelCounts(1, 1, 1)}), {name: name}
    summary = RunSummary(name, name, (name,), name, some_set, some_set, name, 0.5, {name: 1}, more, more, {name: 1.0})
    return Contents(summary, (result,), more, more, (name,), objectness=(name, name))


def with_maps(result, *, is_probability=True):
    """Return a class whose best detections have score maps."""
    values = np.linspace(0, 1, 300, dtype=np.float32).reshape(15, 20)
    score_map = ScoreMap(values, is_probability)
    return replace(result, best=tuple(replace(one, score_map=lambda: score_map) for one in result.best))


def test_a_switch_of_a_class_shows_its_maps_without_a_script(full_contents):
    bus, car, cat, *_ = full_contents.classes
    classes = (with_maps(bus), car, with_maps(cat, is_probability=False))
    source = render_page(replace(full_contents, classes=classes), max_pictures=60)
    page = Page(source)
    assert page.complaints == []
    switches = [attrs for attrs in page.all("input") if attrs["type"] == "checkbox"]
    labels = [attrs["for"] for attrs in page.all("label")]
    assert [attrs["id"] for attrs in switches] == labels == ["class-heat-1", "class-heat-3"]
    assert not any("checked" in attrs for attrs in switches)
    layers = [attrs["href"] for attrs in page.all("image")]
    assert len(layers) >= source.count('class="picture mapped') > 2
    assert all(layer.startswith("data:image/jpeg;base64,") for layer in layers)
    assert "Show where bus scores probability 0 1" in words(page)
    assert "Show where cat scores lowest score of these pictures highest" in words(page)
    assert words(page).count("It says where windows score, not which pixels are the object's") == 2
    assert not page.all("script")


def test_without_maps_there_is_no_switch(page):
    assert not page.all("input")
    assert not page.all("image")
    assert "Score maps" not in words(page)


def test_maps_make_the_page_a_little_larger(full_contents):
    classes = tuple(with_maps(result) for result in full_contents.classes)
    maps = len(render_page(replace(full_contents, classes=classes))) - len(render_page(full_contents))
    assert 0 < maps < 5 * 6 * 3500  # five classes with six best detections


def test_what_stands_out_is_said_of_each_class_and_once_of_the_run(full_contents, page):
    sentences = ("What stands out is marked by x.", "Objectness is y.")
    bus = replace(full_contents.classes[0], stands_out="bus does not stand out: not used (objectness 0.04).")
    contents = replace(full_contents, classes=(bus, *full_contents.classes[1:]), objectness=sentences)
    text = words(Page(render_page(contents)))
    assert text.count(bus.stands_out) == text.count(" ".join(sentences)) == 1
    assert text.index(sentences[0]) < text.index(bus.stands_out) < text.index("Surest boxes")
    assert "stands out" not in words(page)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_and_never_obeyed(name):
    page, innocent = (
        Page(render_page(named(text), max_pictures=2)) for text in (name, " ".join(["x"] * len(name.split())))
    )
    assert page.complaints == []
    assert [(tag, list(attrs)) for tag, attrs in page.tags] == [(tag, list(attrs)) for tag, attrs in innocent.tags]
    assert words(page).count(" ".join(name.split())) >= 20


def test_names_of_every_script_and_broken_ones_are_written(tmp_path, make_summary):
    names = ("猫", "עברית", "e\u0301", "🚌", "broken \udcff")
    write_page(tmp_path / "page.html", Contents(make_summary(), tuple(map(ClassSummary, names))))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f">{name}<" in text for name in (*names[:4], "broken \\udcff"))


def test_a_class_of_which_nothing_is_known_gets_dashes(make_summary):
    page = Page(render_page(Contents(make_summary(), (ClassSummary("bus"),))))
    assert page.complaints == []
    assert "bus - - -" in words(page)
    assert "This run recorded no training history." in words(page)
    assert "There are no pictures to show." in words(page)
    assert "None" not in words(page)


@pytest.mark.parametrize("settings", [{}, {"with_test": False}, {"test_boxes": False, "train_boxes": False}])
def test_without_classes_the_page_says_so(make_summary, settings):
    page = Page(render_page(Contents(make_summary(**settings), ())))
    assert page.complaints == []
    assert "No class was trained." in words(page)


def test_without_boxes_image_ap_alone_is_shown_with_the_sentence(make_summary, entry_of):
    figures = {"test": entry_of(bus={"image_ap": 0.75}), "trainval": entry_of(bus={"image_ap": 0.875})}
    summary = make_summary(test_boxes=False, train_boxes=False)
    text = words(Page(render_page(Contents(summary, (ClassSummary("bus"),), figures=figures))))
    assert "Detection AP and CorLoc were left out because no boxes are known." in text
    assert "AP 11-point" not in text
    assert "bus 0.750 0.875 - - -" in text


def test_all_kinds_of_misses_are_counted_and_named(make_summary, make_example):
    large = tuple(make_example(seed, 0, (-0.7, -0.7, 0.7, 0.7), 1.0) for seed in range(2))
    page = Page(render_page(Contents(make_summary(), (ClassSummary("bus", misses=large, hits=5),))))
    assert page.complaints == []
    text = words(page)
    assert "What the best box covers on trainval" in text
    assert "bus 7 5 2 0 0 0 total 7 5 2 0 0 0" in text
    assert "Too large 2 pictures" in text
    assert "0 pictures" not in text  # the table says so


def test_without_a_test_set_the_page_says_so(make_summary):
    text = words(Page(render_page(Contents(make_summary(with_test=False), (ClassSummary("bus"),)))))
    assert "This run has no test set, so no result is measured on unseen pictures." in text
    assert "on test" not in text.lower()


def test_the_same_contents_give_the_same_bytes(tmp_path, full_contents):
    small = replace(full_contents, classes=full_contents.classes[:1])
    for name in ("first.html", "second.html"):
        write_page(tmp_path / name, small, max_pictures=3)
    assert (tmp_path / "first.html").read_bytes() == (tmp_path / "second.html").read_bytes()


def test_folders_are_made_and_nothing_else_is_left_behind(tmp_path, make_summary):
    write_page(tmp_path / "run" / "page" / "index.html", Contents(make_summary(), ()))
    assert [path.name for path in (tmp_path / "run" / "page").iterdir()] == ["index.html"]


def test_a_picture_that_is_gone_leaves_the_old_page_as_it_was(tmp_path, make_summary):
    def gone():
        raise MissingError("picture a.jpg is not there.")

    path = tmp_path / "index.html"
    path.write_text("old")
    broken = ClassSummary("bus", best=(Example("a", gone, [0, 0, 1, 1], 1.0),))
    with pytest.raises(MissingError, match=r"picture a\.jpg is not there"):
        write_page(path, Contents(make_summary(), (broken,)))
    assert path.read_text() == "old"


def luminance(colour):
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_the_contrast_that_accessibility_asks_for(scheme):
    style = Path(str(files("lapsvm.report").joinpath("page.css"))).read_text()
    colours = dict(re.findall(r"--([\w-]+): (#\w{6});", style.split("@media")[scheme]))
    pairs = [(ink, "paper") for ink in ("ink", "soft", "accent")] + [("mind", "mind-paper"), ("ink", "sunk")]
    for ink, paper in pairs:
        low, high = sorted([luminance(colours[ink]), luminance(colours[paper])])
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)

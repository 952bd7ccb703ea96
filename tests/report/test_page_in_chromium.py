"""The page in a real browser: its table is there, it is not blank, and nothing sticks out at the side."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lapsvm.detection import ScoreMap
from lapsvm.detection.map_colours import map_colours
from lapsvm.report import ClassSummary, Contents, Example, render_page, write_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
WIDTHS = (1280, 400)
# Copies of the page in frames may run this one script, to tell what sticks out; the page itself runs none.
TELL = "<script>parent.postMessage([name, document.documentElement.scrollWidth - innerWidth], '*')</script></body>"
LISTEN = "<script>onmessage = ({data}) => document.body.dataset[data[0]] = data[1]</script>"

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor chromium-browser is installed"),
    pytest.mark.slow,
]


def browse(page, *arguments, place=""):
    profile = page.parent / "profile"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *arguments, page.as_uri() + place]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_drawn(tmp_path, full_contents, width):
    page, shot = tmp_path / "index.html", tmp_path / "shot.png"
    write_page(page, full_contents, max_pictures=30)
    dom = browse(page, f"--window-size={width},900", "--dump-dom", f"--screenshot={shot}")
    assert re.search(r'<th scope="row" class="name">person</th>\s*<td class="number first">0.474</td>', dom)
    pixels = np.asarray(Image.open(shot).convert("L")).astype(int)
    assert pixels.shape == (900, width)
    paper = np.bincount(pixels.ravel()).argmax()
    drawn = np.abs(pixels - paper) > 60
    assert 0.005 < drawn.mean() < 0.5
    assert drawn.any(axis=1).mean() > 0.2


def with_long_names(contents):
    long = "Long" * 100
    score_map = ScoreMap(np.zeros((3, 4), np.float32), False)
    example = replace(contents.classes[0].best[0], id=long, note=long, others={long: [[1, 2, 3, 4]]})
    example = replace(example, score_map=lambda: score_map)
    result = replace(
        contents.classes[0], name=long, stands_out=long, best=(example,), false_positives=(), misses=(example,) * 8
    )
    summary = replace(contents.summary, title=long, dataset=long, command=long, settings={long: long}, seeds={long: 0})
    summary = replace(summary, train=replace(summary.train, name=long), test=replace(summary.test, name=long))
    return Contents(summary, (result,), {long: long}, {long: long}, (long,), objectness=(long,))


def test_nothing_sticks_out_at_the_side(tmp_path, full_contents):
    frames = ""
    for name, contents in {"usual": full_contents, "long": with_long_names(full_contents)}.items():
        page = (
            render_page(contents, max_pictures=12)
            .replace("</body>", TELL)
            .replace('class="switch scores"', 'class="switch scores" checked')
        )
        page = page.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
        (tmp_path / f"{name}.html").write_text(page, encoding="utf-8")
        frames += "".join(
            f'<iframe src="{name}.html" name="{name}{w}" width="{w}" height="800"></iframe>' for w in WIDTHS
        )
    wall = tmp_path / "wall.html"
    wall.write_text(f"<!DOCTYPE html><body>{LISTEN}{frames}</body>", encoding="utf-8")
    dom = browse(wall, "--virtual-time-budget=5000", "--dump-dom")
    found = dict(re.findall(r'data-(\w+)="(-?\d+)"', dom))
    assert found == {f"{name}{width}": "0" for name in ("usual", "long") for width in WIDTHS}


def test_the_switch_shows_the_maps(tmp_path, full_contents):
    """A grey picture with the colours of a map over it; without the switch the picture alone."""
    score_map, pixels = ScoreMap(np.full((300, 400), 0.5, np.float32), True), np.full((300, 400, 3), 90, np.uint8)
    example = Example("a", lambda: pixels, [0, 0, 5, 5], 1.0, score_map=lambda: score_map)
    contents = Contents(full_contents.summary, (ClassSummary("bus", best=(example,)),))
    content, hot = render_page(contents), []
    for name, switch in (("off", 'class="switch scores"'), ("on", 'class="switch scores" checked')):
        page, shot = tmp_path / f"{name}.html", tmp_path / f"{name}.png"
        page.write_text(content.replace('class="switch scores"', switch), encoding="utf-8")
        browse(page, "--window-size=900,900", f"--screenshot={shot}")
        shown = np.asarray(Image.open(shot).convert("RGB")).astype(int)
        expected = 0.45 * 90 + 0.55 * map_colours()[128].astype(int)
        hot.append(int((abs(shown - expected).max(axis=2) < 12).sum()))
    assert hot[0] < 200
    assert hot[1] > 10_000


@pytest.mark.parametrize("width", WIDTHS)
def test_a_click_shows_a_picture_large_and_a_defect_of_ten_pixels_in_it(tmp_path, full_contents, width):
    """In the list its detail, and after a click the picture too, are larger than the file has them."""
    pixels = np.full((900, 1200, 3), 90, np.uint8)
    pixels[300:310, 400:410] = (250, 240, 20)
    example = Example("a", lambda: pixels, [395, 295, 415, 315], 1.0, [[395, 295, 415, 315]])
    page, seen = tmp_path / "page.html", {}
    write_page(page, Contents(full_contents.summary, (ClassSummary("bus", best=(example,)),)))
    for place in ("", "#picture-1"):
        shot = tmp_path / "shot.png"
        browse(page, f"--window-size={width},1600", f"--screenshot={shot}", place=place)
        shown = np.asarray(Image.open(shot).convert("RGB")).astype(int)
        seen[place] = int((abs(shown - (250, 240, 20)).max(axis=2) < 60).sum())
    assert seen[""] > 1.5 * 10 * 10
    assert seen["#picture-1"] > 4 * seen[""]


def test_the_page_follows_the_colours_of_its_reader(tmp_path, full_contents):
    page, papers = tmp_path / "index.html", []
    write_page(page, full_contents, max_pictures=10)
    for more in ([], ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"]):
        shot = tmp_path / "shot.png"
        browse(page, "--window-size=900,900", f"--screenshot={shot}", *more)
        papers.append(np.bincount(np.asarray(Image.open(shot).convert("L")).ravel()).argmax())
    assert papers[0] > 240
    assert papers[1] < 40

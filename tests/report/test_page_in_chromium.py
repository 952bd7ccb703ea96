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
WIDTHS = (1440, 768, 375)
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")
# What a reader who cannot see well, or has no mouse, meets: low contrasts, controls without a name or out of reach.
FAULTS = """<script>
const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255)
  .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b }
const paper = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor
  if (!/, 0\\)$/.test(c)) return c } return 'rgb(255, 255, 255)' }
const faults = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
let count = 0
while (texts.nextNode()) { const e = texts.currentNode.parentElement
  if (!texts.currentNode.data.trim() || e.closest('svg, script') || !e.getClientRects().length) continue
  count += 1
  const [low, high] = [light(getComputedStyle(e).color), light(paper(e))].sort((a, b) => a - b)
  if ((high + .05) / (low + .05) < 4.5) faults.push('contrast of ' + texts.currentNode.data.trim()) }
for (const e of document.querySelectorAll('a, summary, input, [tabindex]')) {
  const text = e.getAttribute('aria-label') || e.textContent.trim() || e.querySelector('img')?.alt
  const name = text || e.labels?.[0]?.textContent
  if (!name?.trim()) faults.push('no name: ' + e.outerHTML.slice(0, 99))
  if (e.tabIndex < 0) faults.push('out of reach: ' + e.outerHTML.slice(0, 99)) }
for (const e of document.images) if (!e.alt) faults.push('no text for ' + e.outerHTML.slice(0, 99))
document.body.replaceChildren(`texts: ${count}; faults: ${faults.join('; ')}.`)
</script></body>"""
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


def with_a_script(content, script):
    """Return a page that may run one script, as the page itself never does."""
    content = content.replace("</body>", script)
    return content.replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")


@pytest.mark.parametrize("colours", [(), DARK], ids=["light", "dark"])
@pytest.mark.parametrize("spoiled", [False, True])
def test_text_has_contrast_and_controls_have_names_and_are_in_reach(tmp_path, full_contents, colours, spoiled):
    sample = full_contents.classes[0].best
    bus = replace(full_contents.classes[0], sample=tuple(replace(one, probability=0.7) for one in sample))
    content = render_page(replace(full_contents, classes=(bus,)), max_pictures=20).replace("<details", "<details open")
    if spoiled:
        content = content.replace("--soft: #5a6068", "--soft: #aaaaaa").replace("--soft: #a2a9b1", "--soft: #555555")
        content = content.replace('aria-label="Back to the page">&times;', ">")
    page = tmp_path / "page.html"
    page.write_text(with_a_script(content, FAULTS), encoding="utf-8")
    found = re.search(r"texts: (\d+); faults: (.*)\.", browse(page, *colours, "--dump-dom"), re.DOTALL)
    assert int(found[1]) > 100
    assert ("contrast of" in found[2], "no name:" in found[2]) == (spoiled, spoiled)
    assert spoiled or found[2] == ""


def test_a_button_leaves_the_pictures_of_one_range_of_probabilities(tmp_path, full_contents):
    """Three red pictures are probable and one green one is not."""
    red, green = (np.full((50, 50, 3), colour, np.uint8) for colour in ((200, 0, 0), (0, 200, 0)))
    sample = [Example(str(i), lambda: red, [0, 0, 5, 5], 1.0, probability=0.95) for i in range(3)]
    sample.append(Example("b", lambda: green, [0, 0, 5, 5], 0.1, probability=0.1))
    content = render_page(Contents(full_contents.summary, (ClassSummary("bus", sample=tuple(sample)),)))
    content, seen = content.replace("<details", "<details open"), {}
    for key in ("all", "high", "low"):
        page, shot = tmp_path / "page.html", tmp_path / "shot.png"
        page.write_text(content.replace(f'class="{key}"', f'class="{key}" checked'), encoding="utf-8")
        browse(page, "--window-size=900,900", f"--screenshot={shot}")
        shown = np.asarray(Image.open(shot).convert("RGB")).astype(int)
        seen[key] = [int((abs(shown - colour).max(axis=2) < 40).sum()) > 500 for colour in ((200, 0, 0), (0, 200, 0))]
    assert seen == {"all": [True, True], "high": [True, False], "low": [False, True]}


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
        page = with_a_script(render_page(contents, max_pictures=12), TELL)
        page = page.replace('class="switch scores"', 'class="switch scores" checked')
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
    """In its row it is larger than the file has it, and after a click larger again."""
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
    assert seen[""] > 15 * 10 * 10
    assert seen["#picture-1"] > 2 * seen[""]


def test_the_page_follows_the_colours_of_its_reader(tmp_path, full_contents):
    page, papers = tmp_path / "index.html", []
    write_page(page, full_contents, max_pictures=10)
    for more in ((), DARK):
        shot = tmp_path / "shot.png"
        browse(page, "--window-size=900,900", f"--screenshot={shot}", *more)
        papers.append(np.bincount(np.asarray(Image.open(shot).convert("L")).ravel()).argmax())
    assert papers[0] > 240
    assert papers[1] < 40

"""The page in a real browser: its table is there, it is not blank, and nothing sticks out at the side."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from lapsvm.report import write_page

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
# a copy of the page may run this one script, to measure what sticks out; the page itself runs none
MEASURE = "<script>document.body.dataset.beyond = document.documentElement.scrollWidth - innerWidth</script></body>"

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="neither chromium nor chromium-browser is installed"),
    pytest.mark.slow,
]


def browse(page, *arguments):
    profile = page.parent / "profile"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *arguments, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory, full_contents):
    path = tmp_path_factory.mktemp("page") / "index.html"
    write_page(path, full_contents, max_pictures=30)
    source = path.read_text(encoding="utf-8").replace(
        "default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';"
    )
    path.write_text(source.replace("</body>", MEASURE), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_drawn_and_fits_the_window(page, width):
    shot = page.with_name(f"{width}.png")
    dom = browse(page, f"--window-size={width},900", "--dump-dom", f"--screenshot={shot}")
    assert re.search(r'<th scope="row" class="name">person</th>\s*<td class="number first">0.474</td>', dom)
    assert 'data-beyond="0"' in dom
    pixels = np.asarray(Image.open(shot).convert("L")).astype(int)
    assert pixels.shape == (900, width)
    paper = np.bincount(pixels.ravel()).argmax()
    drawn = np.abs(pixels - paper) > 60
    assert 0.005 < drawn.mean() < 0.5
    assert drawn.any(axis=1).mean() > 0.2

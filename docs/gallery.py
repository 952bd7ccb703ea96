"""Write a gallery: the pages of real runs on pictures that the project draws, and an index; see `make gallery`."""

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path

SOURCE = Path(__file__).parents[1]
PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Gallery</title>
<style>
body {{ margin: 2rem auto; max-width: 60rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }}
td, th {{ padding: .4rem 1rem .4rem 0; text-align: left; vertical-align: top; }}
</style>
<h1>Gallery</h1>
<p>Pages as <code>lapsvm run</code> writes them. Training knows labels alone;
the drawn sets have boxes, which only evaluation reads.</p>
<table>
<tr><th scope="col">Run</th><th scope="col">Pictures</th><th scope="col">Right best boxes</th></tr>
{rows}
</table>
"""


@dataclass(frozen=True)
class Run:
    """A run of the gallery: its name, a sentence, how its pictures are drawn, and its options."""

    name: str
    sentence: str
    draw: tuple[str, ...]
    options: tuple[str, ...]


def _drawn(name: str, sentence: str, script: str, count: int, part: str = "", *more: str) -> Run:
    """Return a run on a set that a script of the benchmarks draws in the layout of VOC."""
    draw = (f"benchmarks/recipes/{script}.py", "{folder}", "--pictures", str(count), "--size", "480", "360")
    return Run(name, sentence, draw, ("--data", "voc", "--root", f"{{folder}}{part}", *more))


RUNS = (
    Run(
        "product",
        "Metal plates, good, scratched, stained or chipped: good and defective products with masks",
        ("examples/draw_product.py", "{folder}", "{folder}-new", "--defects", "12"),
        ("--data", "mvtec", "--root", "{folder}"),
    ),
    Run(
        "digits",
        "Handwritten digits among clutter",
        (),
        ("--data", "digits", "--root", "{folder}", "--extractor", "hog", "--C", "10"),
    ),
    _drawn("defects", "Small defects of several kinds on textured surfaces", "drawn_defects", 40),
    _drawn("kinds", "Tokens in scenes, of kinds that differ in little", "drawn_kinds", 40),
    _drawn("cracks", "Cracks, thinner than the boxes that hold them", "drawn_small", 40, "/cracks"),
    _drawn("many", "Many small things of a kind, as cells", "drawn_small", 40, "/many"),
)


def main() -> None:
    """Draw the pictures, run, and write the pages and the index."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the folder of the gallery")
    parser.add_argument("--work", type=Path, default=SOURCE / "build" / "gallery-runs", help="of pictures and runs")
    parser.add_argument("--root", type=Path, help="a folder of your own, in a folder for each class, besides")
    parser.add_argument("--only", nargs="*", help="names of runs; all by default")
    given = parser.parse_args()
    runs = [run for run in RUNS if given.only is None or run.name in given.only]
    if given.root:
        runs.append(Run(given.root.resolve().name, "Your own", (), ("--data", "folder", "--root", str(given.root))))
    given.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for run in runs:
        folder = _finished(run, given.work)
        shutil.copy(folder / "page" / "index.html", given.out / f"{run.name}.html")
        rows.append(_row(run, json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))))
    (given.out / "index.html").write_text(PAGE.format(rows="\n".join(rows)), encoding="utf-8")
    print(f"gallery: {given.out / 'index.html'}")


def _finished(run: Run, work: Path) -> Path:
    """Return the folder of a finished run; what is finished already is not done again."""
    pictures, folder = work / "pictures" / run.name, work / "runs" / run.name
    pictures.parent.mkdir(parents=True, exist_ok=True)
    if run.draw and not pictures.exists():
        script, *arguments = [word.format(folder=pictures) for word in run.draw]
        subprocess.run([sys.executable, SOURCE / script, *arguments], check=True)
    options = [word.format(folder=pictures) for word in run.options]
    subprocess.run([sys.executable, "-m", "lapsvm", "run", *options, "--out", folder], check=True)
    return folder


def _row(run: Run, evaluation: dict) -> str:
    """Return the row of a run: its name, a sentence, and the share of right best boxes of held-out pictures."""
    shares = [of_set.get("held_out", {}).get("mean", {}).get("corloc") for of_set in evaluation["sets"].values()]
    right = next((f"{100 * share:.0f} %" for share in shares if share is not None), "not known")
    name = escape(run.name)
    return f'<tr><td><a href="{name}.html">{name}</a></td><td>{escape(run.sentence)}</td><td>{right}</td></tr>'


if __name__ == "__main__":
    main()

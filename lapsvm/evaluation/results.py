"""The result files of the VOC devkit, each with the detections of one class.

A line is ``id score x1 y1 x2 y2`` with VOC boxes (1-based, inclusive edges). Files are named
``comp3_det_<set>_<class>.txt`` (trained on the challenge's data only) or ``comp4_det_<set>_<class>.txt`` (any data).
As an extension, a tab separates an id that contains spaces from its numbers.
"""

from codecs import BOM_UTF8
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path

import numpy as np

from lapsvm._ext import result_lines as _kernel
from lapsvm.arrays import check_choice
from lapsvm.boxes import from_voc, to_voc
from lapsvm.errors import InputError, MissingError, ResultsError
from lapsvm.evaluation.detections import Detections, ImageIds
from lapsvm.files import read_regular, write_atomically
from lapsvm.texts.contents import refusal
from lapsvm.texts.numbers import finite_number
from lapsvm.texts.reading import decoded

COMPETITIONS = ("comp3", "comp4")


def result_name(set_name: str, class_name: str, competition: str = "comp4") -> str:
    """Return the name of a class's result file.

    Parameters
    ----------
    set_name, class_name : str
    competition : {"comp3", "comp4"}, default "comp4"

    Returns
    -------
    str

    Raises
    ------
    OptionError
        If the competition is unknown.
    InputError
        If a name is empty or holds a slash, a NUL or a line break.
    """
    check_choice("competition", competition, COMPETITIONS)
    for name in (set_name, class_name):
        if not name or set(name) & set("/\\\0\r\n") or _has_surrogates(name):
            raise InputError(f"the name of a set or class must be valid in a file name, got {name!r}.")
    return f"{competition}_det_{set_name}_{class_name}.txt"


def read_results(folder: str | Path, set_name: str) -> dict[str, Detections]:
    """Read every result file of a set.

    Parameters
    ----------
    folder : str or Path
    set_name : str
        The set in the file names. The rest of the name is the class, which may contain underscores.

    Returns
    -------
    dict of class name to Detections
        Sorted by name, detections in file order. An empty file is a class without detections.

    Raises
    ------
    MissingError
        If there is no such folder, or no result file of this set in it.
    ResultsError
        If a line is not "id score x1 y1 x2 y2" with finite numbers (the file and line are named), or a class has both
        a comp3 and a comp4 file.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise MissingError(f"folder of results {folder} is not there.")
    files: dict[str, Path] = {}
    for prefix in (f"{competition}_det_{set_name}_" for competition in COMPETITIONS):
        for path in folder.iterdir():
            name = path.name.removeprefix(prefix).removesuffix(".txt")
            if path.name != f"{prefix}{name}.txt" or not name or path.is_dir():
                continue
            if name in files:
                raise ResultsError(
                    f"class {name!r} must have one result file, got {files[name].name} and {path.name} in {folder}."
                )
            files[name] = path
    if not files:
        raise MissingError(f"folder {folder} holds no result file comp3|comp4_det_{set_name}_<class>.txt.")
    names = sorted(files)
    with ThreadPoolExecutor() as pool:
        return dict(zip(names, pool.map(read_result_file, (files[name] for name in names)), strict=True))


def read_result_file(path: str | Path) -> Detections:
    """Read one result file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Detections
        In file order.

    Raises
    ------
    MissingError
        If there is no such file.
    ResultsError
        If a line is malformed; the message names the line.
    """
    path = Path(path)
    content = read_regular(path, "result file")
    text = content.removeprefix(BOM_UTF8)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    table, places, names, odd = _kernel.read_lines(text)
    known, kept = {name.decode(): number for number, name in enumerate(names)}, np.ones(len(table), dtype=bool)
    if odd and (refused := refusal(f"result file {path}", "text in UTF-8", content, "")):
        raise ResultsError(refused)
    if odd:
        decoded(text, f"result file {path}", ResultsError)
    for row, number, start, stop in odd:
        line = text[start:stop].decode("utf-8", "replace")
        kept[row] = not line.isspace()
        if kept[row]:
            image, table[row] = _parse(line, path, number)
            places[row] = known.setdefault(image, len(known))
    if not kept.all():
        table, places = table[kept], places[kept]
    return Detections(ImageIds(tuple(known), places), table[:, 0].copy(), from_voc(table[:, 1:]))


def _parse(line: str, path: Path, number: int) -> tuple[str, list[float]]:
    """Return the id and the five numbers of a line; the kernel reads plain lines likewise."""
    image, *fields = line.split()
    if len(fields) != 5 and "\t" in line:
        image, _, numbers = line.partition("\t")
        fields = numbers.split()
    row = [value for value in map(finite_number, fields) if value is not None]
    if not len(row) == len(fields) == 5:
        raise ResultsError(
            f"{path}, line {number}, must be an id, a score and x1 y1 x2 y2, all finite; got {line.strip()[:80]!r}."
        )
    return image, row


def write_results(path: str | Path, detections: Detections) -> None:
    """Write one result file atomically.

    Numbers are written as the shortest text that reads back as the same float64. Lines are sorted by descending score,
    then by image id, then in the given order, so that all readers rank them equally.

    Parameters
    ----------
    path : str or Path
        See `result_name`.
    detections : Detections
        A box is written as its VOC coordinates (x1 + 1, y1 + 1, x2, y2); the sum is exact unless x1 or y1 has binary
        digits below 2**-44 (float32 coordinates from 2**-20 on have none).

    Raises
    ------
    InputError
        If an image id is empty, starts or ends with a space, or holds a tab or a line break.
    """
    write_atomically(path, "".join(_lines(detections)).encode())


def _lines(detections: Detections) -> list[str]:
    """Return the lines of a result file."""
    numbers = np.column_stack([detections.scores, to_voc(detections.boxes)]).tolist()
    rows = sorted(zip((-detections.scores).tolist(), detections.image_ids, numbers, strict=True), key=itemgetter(0, 1))
    heads = {image: image + _separator(image) for image in detections.image_ids.distinct()}
    return [f"{heads[image]}{' '.join(map(_number, row))}\n" for _, image, row in rows]


def _number(value: float) -> str:
    """Return the shortest text that reads back as `value`, an integer without its ".0"."""
    return repr(value).removesuffix(".0")


def _separator(image: str) -> str:
    """Return the separator between an id and its numbers: a space, or a tab if the id contains spaces."""
    if image.split() == [image] and image.isprintable():
        return " "
    if _has_surrogates(image):
        raise InputError(f"an image id must be text that UTF-8 can write, got {image!r}.")
    if image.split() == [image]:
        return " "
    if not image.strip() or image != image.strip() or set(image) & set("\t\r\n"):
        raise InputError(
            f"an image id must not be empty, start or end with a space or hold a tab or a line break, got {image!r}."
        )
    return "\t"


def _has_surrogates(text: str) -> bool:
    """Return whether a text holds surrogates, which UTF-8 cannot encode."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)

"""The formats of annotations of other programs: one row each for writing, reading back, help and pages.

To add one, write a module of `lapsvm.annotations.formats` and its row. This table imports no other file, because help
lists its names.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Format:
    """A format of another program.

    Attributes
    ----------
    module : str
        In `lapsvm.annotations.formats`, with four functions: ``write(annotations, folder)``, and ``copy`` with
        pictures, writes into an empty folder; ``read(path)`` returns an `AnnotatedFile`; ``can_hold(name)`` says
        whether its files can hold the name of a set, class or picture; ``owns(path)``, whether a named file is its own.
    markers : tuple of str
        Files that say that a folder is of this format, the preferred one first.
    reads_folder : bool
        Whether `read` takes the folder in place of the marker.
    written : tuple of str
        Further files beside the marker, which are not read.
    with_pictures : bool
        Whether the folder contains the pictures.
    """

    module: str
    markers: tuple[str, ...]
    reads_folder: bool = False
    written: tuple[str, ...] = ()
    with_pictures: bool = False

    def load(self) -> Any:
        """Return the module."""
        return import_module(f"lapsvm.annotations.formats.{self.module}")


FORMATS = {
    "coco": Format("coco", ("annotations.json",), written=("results.json",)),
    "yolo": Format(
        "yolo", ("data.yaml", "data.yml", "classes.txt", "labels/classes.txt", "obj.names"), reads_folder=True,
        with_pictures=True,
    ),
    "voc": Format("voc", ("Annotations",), with_pictures=True),
    "label-studio": Format("label_studio", ("tasks.json",), written=("labels.xml",)),
    "cvat": Format("cvat", ("annotations.xml",)),
}  # fmt: skip
"""Name -> format. Of a file that several own the first format counts last, and it takes files that none owns."""

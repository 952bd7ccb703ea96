"""Pictures that stand in an exported folder: links to the originals, or copies."""

import shutil
from pathlib import Path


def place_picture(source: Path, target: Path, copy: bool) -> None:
    """Link a picture by its absolute path, or copy its content; the target's folder is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        shutil.copyfile(source, target)
    else:
        target.symlink_to(source.resolve())

"""The kind of a file or folder by its name: a picture, a mask, good pictures, or something that a system leaves."""

from importlib.util import find_spec
from pathlib import PurePath

HEIC = (".heic", ".heif")
"""Suffixes of pictures of telephones, which need the extra `heic`."""

READS_HEIC = find_spec("pillow_heif") is not None

_JPEG = (".jpg", ".jpeg", ".jpe", ".jfif", ".jif")
_USUAL = (*_JPEG, ".png", ".bmp", ".dib", ".tif", ".tiff", ".webp")

PICTURE_SUFFIXES = (*_USUAL, *(HEIC if READS_HEIC else ()))
"""Suffixes of files taken for pictures, in lower case, the usual ones first."""

UNREAD_SUFFIXES = frozenset({
    ".gif", ".avif", ".jp2", ".j2k", ".jxl", ".svg", ".psd", ".raw", ".cr2", ".cr3", ".nef", ".arw", ".dng", ".ppm",
    ".pgm", ".pbm", ".pnm", ".tga", ".ico", ".exr", ".hdr", ".dcm", *HEIC,
})  # fmt: skip
"""Suffixes of pictures that no reader of folders takes, without the extra `heic`: they are to be converted."""

MASK_SUFFIXES = (".png", ".bmp", ".tif", ".tiff", *_JPEG)
"""Suffixes of masks, in lower case."""

SUFFIX_WORDS = "|".join(suffix[1:] for suffix in dict.fromkeys((*_USUAL, *HEIC)))
"""A regular expression of the suffixes of pictures, as programs write them into a name."""

NO_CLASS = frozenset({"background", "good", "negative", "negatives", "none", "normal", "ok"})
"""Names, in lower case, of folders whose pictures belong to no class."""

_GOOD = frozenset({"good", "normal", "ok"})
"""Those of them that say that the other folders are defects."""

_SYSTEM_NAMES = frozenset({
    "__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "@eadir",
    "#recycle", "lost+found", "__pycache__", "icon\r",
})  # fmt: skip
"""Names, in lower case, of files and folders that systems and file managers leave beside those of a user."""


def is_system_name(name: str) -> bool:
    """Return whether a file or folder is not a user's: its name starts with a dot, or is one that systems use."""
    return name.startswith(".") or name.casefold() in _SYSTEM_NAMES


def is_picture_name(name: str) -> bool:
    """Return whether a file is taken for a picture by its name."""
    return not is_system_name(name) and suffix_of(name) in PICTURE_SUFFIXES


def is_mask_name(name: str) -> bool:
    """Return whether a file is taken for a mask by its name."""
    return not is_system_name(name) and suffix_of(name) in MASK_SUFFIXES


def is_no_class_name(name: str) -> bool:
    """Return whether a folder or a label of this name means no class, in any case."""
    return name.casefold() in NO_CLASS


def is_good_name(name: str) -> bool:
    """Return whether a folder or a label of this name means a product without a defect, in any case."""
    return name.casefold() in _GOOD


def suffix_of(name: str) -> str:
    """Return the suffix of a name or path in lower case, "" if it has none."""
    return PurePath(name).suffix.lower()


def picture_rank(name: str) -> tuple[int, bool]:
    """Return the order in which files of one name are taken: by their suffixes, in lower case first."""
    suffix = PurePath(name).suffix
    return PICTURE_SUFFIXES.index(suffix.lower()), suffix != suffix.lower()


def without_picture_suffix(name: str) -> str:
    """Return a name or path without the suffix of a picture; unchanged if it ends otherwise, as "part.v2" does."""
    suffix = suffix_of(name)
    return name[: -len(suffix)] if suffix in (*PICTURE_SUFFIXES, *UNREAD_SUFFIXES) else name

"""Collect the files of CHANGELOG.d into CHANGELOG.md at a release: `python docs/collect_changes.py 0.3.0`."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def collected(changelog: str, changes: list[str], version: str) -> str:
    """Return the text of the changelog with its unreleased page, and then every change, under the version's heading."""
    if changelog.count("\n## Unreleased\n") != 1:
        raise SystemExit("CHANGELOG.md must have one heading '## Unreleased'")
    if re.search(rf"^## {re.escape(version)}$", changelog, re.MULTILINE):
        raise SystemExit(f"CHANGELOG.md has {version} already")
    before, rest = changelog.split("\n## Unreleased\n")
    page, *earlier = re.split(r"(?m)^(?=## )", rest, maxsplit=1)
    everything = "**All changes**\n\n" + "".join(f"{change.rstrip()}\n" for change in changes)
    return "".join((f"{before}\n## Unreleased\n\n## {version}\n", page, everything, "\n", *earlier))


def main() -> None:
    """Write CHANGELOG.md anew and remove the files that it now holds."""
    (version,) = sys.argv[1:]
    files = sorted(path for path in (ROOT / "CHANGELOG.d").glob("*.md") if path.name != "README.md")
    changelog = ROOT / "CHANGELOG.md"
    changes = [path.read_text("utf-8") for path in files]
    changelog.write_text(collected(changelog.read_text("utf-8"), changes, version), "utf-8")
    for path in files:
        path.unlink()


if __name__ == "__main__":
    main()

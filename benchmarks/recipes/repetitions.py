"""Finished runs in one table, repetitions as one row: means with intervals over pictures.

    python benchmarks/recipes/repetitions.py --row plain=RUN,RUN --row best=RUN,RUN --out DIR

A row is a name and its runs: the same recipe with other seeds, starts or draws of the data. `--root` names the folder
of their data, if they have moved. Differences are to the first row, paired over the pictures. The table is
printed and written to DIR/repetitions.json and DIR/repetitions.md.
"""

from pathlib import Path
from typing import Annotated

from lapsvm.pipelines.cli.parsing import split_names
from lapsvm.pipelines.cli.study import Given, Into, Root, study_command
from lapsvm.pipelines.compare.runs import MEASURES
from lapsvm.pipelines.run.ownership import table_files
from lapsvm.pipelines.settings.limits import MAX_DRAWS
from rows import Row, print_rows, rows_table, write_rows

from lapsvm.errors import OptionError


def parse_row(text: str) -> Row:
    """Return a row from NAME=RUN,RUN; OptionError if it has no name or no run."""
    name, _, runs = text.partition("=")
    folders = [Path(folder.strip()) for folder in runs.split(",") if folder.strip()]
    if not name or not folders:
        raise OptionError(f"option --row must be NAME=RUN,RUN, got {text!r}.")
    return Row(name, folders)


@study_command
def main(
    row: Annotated[list[str], Given(help="NAME=RUN,RUN; once for every row of the table.")],
    out: Annotated[Path, Given(help="Folder for the table.")],
    draws: Annotated[int, Given(low=1, high=MAX_DRAWS, help="Bootstrap draws of the pictures.")] = 1000,
    measures: Annotated[str, Given(help="What is printed, separated by commas.")] = ",".join(MEASURES),
    root: Root = None,
    into: Into = None,
) -> None:
    """Compare repeated runs."""
    table_files(out, "repetitions", write=False)
    table = rows_table([parse_row(text) for text in row], draws, root=root)
    write_rows(out, "repetitions", table)
    print_rows(table, split_names("option --measures", measures, MEASURES), into)


if __name__ == "__main__":
    main()

"""Extraction of several sets of pictures, each with its own projection, in which networks see a picture once.

The windows and maps of pictures that a later set has too stay in memory, up to `MAX_BYTES`.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.products import projection
from lapsvm.pipelines.shards import extraction
from lapsvm.pipelines.shards.extraction import prepare_record
from lapsvm.pipelines.shards.placement import IMAGES_PER_SHARD
from lapsvm.pipelines.stages.registry import run_stage

from lapsvm.catalog import ImageRecord

MAX_BYTES = 6 * 2**30


class SharedPictures:
    """A replacement of `prepare_record` that keeps the pictures which other sets need, too."""

    def __init__(self, uses: Counter[Path]) -> None:
        self.uses, self.kept = uses, {}

    def __call__(self, record: ImageRecord, settings, extractor, pixels=None):
        """Return a picture with its windows, ready for their features, and the hash of its pixels."""
        whole, path = getattr(extractor, "whole", extractor), record.path.resolve()
        found = self.kept.get(path) or prepare_record(record, settings, whole, pixels)
        if found is not None and self.uses[path] > 1 and self._n_bytes < MAX_BYTES:
            self.kept[path] = found
        if found is None or whole is extractor:
            return found
        return found[0].projected(extractor.projection.components), found[1]

    @property
    def _n_bytes(self) -> int:
        return sum(picture.seen.nbytes for picture, _ in list(self.kept.values()))

    def finish(self, records: Iterable[ImageRecord]) -> None:
        """Drop the pictures of a finished set that no other set needs."""
        for record in records:
            path = record.path.resolve()
            self.uses[path] -= 1
            if self.uses[path] < 1:
                self.kept.pop(path, None)


def extract_all(contexts: Iterable[RunContext]) -> None:
    """Extract the shards that some runs lack; all of them have the same settings of windows and features."""
    missing = [context for context in contexts if not is_extracted(context)]
    pictures = [[one for records in context.data.records.values() for one in records] for context in missing]
    shared = SharedPictures(Counter(one.path.resolve() for records in pictures for one in records))
    extraction.prepare_record = projection.prepare_record = shared
    try:
        for context, records in zip(missing, pictures, strict=True):
            context.reporter.say(f"extract {context.run.path}")
            with context.run.lock():
                run_stage("extract", context)
            shared.finish(records)
            del records[:]
    finally:
        extraction.prepare_record = projection.prepare_record = prepare_record


def is_extracted(context: RunContext) -> bool:
    """Return whether a run has all shards; training checks their content."""
    return context.run.settings_file.is_file() and all(
        len(list(context.run.shards(name).glob("*.safetensors"))) == -(-len(records) // IMAGES_PER_SHARD)
        for name, records in context.data.records.items()
    )

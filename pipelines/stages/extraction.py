"""The products of extraction: the projection of features, the normal map, and the shards of every set."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from lapsvm.catalog import ImageRecord
from lapsvm.features import Extractor, save_projection
from lapsvm.objectness import NormalMap
from lapsvm.settings import NORMAL

from ..context import Workspace
from ..products.projection import NewProjection, kept_bytes, open_run_extractor
from ..run.dataset import RunData
from ..run.folder import RunFolder
from ..settings.settings import Settings
from ..shards.extraction import KeptPictures, SetExtraction
from ..shards.forecast import Forecast, projected_dim
from ..shards.normal import run_normal_map
from ..shards.objectness import NO_OBJECTNESS, ObjectnessRequest
from ..shards.placement import ShardJob


@dataclass
class Extraction:
    """What one command extracts: first the projection and the normal map, which are fitted, then the shards of sets.

    Attributes
    ----------
    workspace : Workspace
    settings : Settings
    data : RunData
    forecast : Forecast
    full : Extractor
        The extractor of the settings, without a projection.
    measuring : ObjectnessRequest
        Without a normal map, which is fitted here.
    source : RunFolder or None
        Another run whose shards may be copied.
    redo : bool
        Whether everything is made again.
    report : callable
        Reports the data before a projection is fitted, and returns the number of new pictures.
    """

    workspace: Workspace
    settings: Settings
    data: RunData
    forecast: Forecast
    full: Extractor
    measuring: ObjectnessRequest
    source: RunFolder | None
    redo: bool
    report: Callable[[], int]

    @property
    def _records(self) -> Sequence[ImageRecord]:
        """The training pictures."""
        return self.data.records[self.settings.data.train_set]

    @property
    def _places(self) -> list[RunFolder]:
        """The run folders that may hold a projection or a normal map."""
        own = [self.workspace.folder, *([self.source] if self.source else [])]
        return [] if self.redo else own

    @cached_property
    def _projected(self) -> tuple[Extractor, NewProjection | None]:
        """The extractor with the projection of the settings, and a new projection to save, if any."""
        return open_run_extractor(
            self.full, self.workspace, self.settings, self._records, self._places, self._before_fit
        )

    def _before_fit(self, sample: Sequence[ImageRecord]) -> KeptPictures:
        """Report the data and the needs of the command before the projection is fitted."""
        pca = self.settings.features.pca
        dim, room = projected_dim(self.full, pca), kept_bytes()
        return self.forecast.features(self.full, sample, self.report(), dim, room=room, exact=pca >= 1)

    @cached_property
    def _normal(self) -> tuple[ObjectnessRequest, NormalMap | None]:
        """The request, with the normal map if the settings ask for it, and the map if it is to be saved."""
        if self.settings.objectness.source != NORMAL:
            return self.measuring, None
        normal, is_new = run_normal_map(self.full, self.settings, self.data, self._places, self.workspace.reporter)
        return replace(self.measuring, source=normal), normal if is_new else None

    @cached_property
    def sets(self) -> dict[str, SetExtraction]:
        """The shards of every set, once the projection and the normal map are fitted."""
        (extractor, projection), (objectness, _) = self._projected, self._normal
        sets, train_set = {}, self.settings.data.train_set
        for name, records in self.data.records.items():
            folder, other = self.workspace.folder.shards(name), self.source.shards(name) if self.source else None
            request = objectness if name == train_set else NO_OBJECTNESS
            sets[name] = SetExtraction(folder, records, self.settings, extractor, self.redo, other, request)
        sets[train_set].kept |= projection.kept if projection is not None else {}
        return sets

    @property
    def fitted_files(self) -> list[Path]:
        """The files of a new projection and a new normal map."""
        (_, projection), (_, normal), run = self._projected, self._normal, self.workspace.folder
        return [path for path, new in ((run.projection, projection), (run.normal_map, normal)) if new is not None]

    def save_fitted(self) -> None:
        """Write a new normal map and a new projection."""
        (_, projection), (_, normal), run = self._projected, self._normal, self.workspace.folder
        if normal is not None:
            normal.save(run.normal_map)
        if projection is not None:
            save_projection(run.projection, projection.projection, projection.made_with)
            run.remove([run.projection_sums])
            if projection.timing is not None:
                run.save_timing("projection", projection.timing, self.workspace.reporter.say)

    def say_cost(self, to_do: Mapping[str, Sequence[ShardJob]]) -> None:
        """Report the time and memory of the shards to make, by a few pictures, which are kept for their extraction."""
        (extractor, projection), sets = self._projected, self.sets
        if projection is None or projection.timing is None:  # else it was forecast before the components were fitted
            counts = {name: sum(len(members) for _, members in jobs) for name, jobs in to_do.items()}
            name = max(sets, key=lambda one: counts[one])
            records = [record for _, members in to_do[name] for record in members]
            sets[name].kept |= self.forecast.features(extractor, records, sum(counts.values()), extractor.dim)
        train_set = self.settings.data.train_set
        train_jobs = [*to_do[train_set], *sets[train_set].unmeasured]
        self.forecast.objectness(self._normal[0], [record for _, members in train_jobs for record in members])

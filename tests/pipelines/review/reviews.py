"""Reviews of runs, opened as the command opens them."""

import json

from lapsvm.pipelines.annotations.known_boxes import BoxSource, known_boxes
from lapsvm.pipelines.context import RunContext
from lapsvm.pipelines.review.session import ReviewSession


def context_of(run):
    """Return the context of the command."""
    return RunContext.opened(run, "review", quiet=True)


def review_of(run, class_name=None):
    """Return the review of a run."""
    return ReviewSession(context_of(run).stored, class_name)


def learn(session):
    """Let the classes of a review learn."""
    context = context_of(session.stored.folder.path)
    return session.learn(context.workspace, context.open_extractor)


def truth_of(session):
    """Return class -> picture -> its objects."""
    return known_boxes(BoxSource.of(session.stored), "trainval").truth


def change_json(path, change):
    """Change the content of a JSON file in place."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))

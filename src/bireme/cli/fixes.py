"""`bireme validate --fix`: repair what has one right fix, in the text itself."""

from bireme.admission.problems import Problem, QuoteScalar, RenameKey, ReplaceScalar, SplitItem, WrapScalar
from bireme.api.paths import Path
from bireme.cli.sources import Source
from bireme.cli.validate import Report, check_source
from bireme.manifest import Document
from bireme.manifest.edits import (
    Edit,
    apply_edits,
    quote_scalar,
    rename_key,
    replace_scalar,
    split_item,
    wrap_scalar,
)

_MOST_ROUNDS = 10


def repair(source: Source) -> tuple[Report, int]:
    """Repair until nothing changes, as one repair may bring another problem to light.

    Return what is left, and how many repairs were made; nothing is written.
    """
    report, fixed = check_source(source), 0
    for _ in range(_MOST_ROUNDS):
        edits = _edits(report)
        if not edits:
            break
        fixed += len(edits)
        text = apply_edits(report.manifest.text, edits)
        report = check_source(source._replace(data=text.encode()))
    return report, fixed


def _edits(report: Report) -> list[Edit]:
    edits: dict[int, Edit] = {}
    for checked in report.objects:
        for problem in checked.problems:
            edit = _edit(checked.document, (*checked.prefix, *problem.path), problem)
            if edit is not None:
                edits.setdefault(edit.start, edit)
    return list(edits.values())


def _edit(document: Document, path: Path, problem: Problem) -> Edit | None:
    match problem.fix:
        case RenameKey(new):
            return rename_key(document, path, new)
        case QuoteScalar():
            return quote_scalar(document, path)
        case ReplaceScalar(text):
            return replace_scalar(document, path, text)
        case SplitItem(parts):
            return split_item(document, path, list(parts))
        case WrapScalar(key):
            return wrap_scalar(document, path, key)
        case None:
            return None

"""Manifests: YAML or JSON text in, plain data with exact source positions out.

Scalars are read exactly as kubectl reads them. Nothing here opens a file.
"""

from bireme.api.paths import Path, format_path
from bireme.manifest.document import Document, Manifest
from bireme.manifest.edits import (
    Edit,
    apply_edits,
    quote_scalar,
    rename_key,
    replace_scalar,
    split_item,
    wrap_scalar,
)
from bireme.manifest.positions import Span, SyntaxProblem
from bireme.manifest.source import read
from bireme.manifest.writer import write

__all__ = [
    "Document",
    "Edit",
    "Manifest",
    "Path",
    "Span",
    "SyntaxProblem",
    "apply_edits",
    "format_path",
    "quote_scalar",
    "read",
    "rename_key",
    "replace_scalar",
    "split_item",
    "wrap_scalar",
    "write",
]

"""Where a store is saved: one SQLite file, written in groups, read once at the start.

    objects   every object as it is
    log       the last changes: what was there before each; so watchers can resume after a restart
    about     the version of this layout, and of the latest write

A group of writes is one transaction, and synchronous: what is committed survives a kill and a power cut. A
file in an older layout is brought up to date; a newer one is refused.

On a full disk, groups that create an object are refused, and others are saved in the space of a reserve
(reserve.py). Meanwhile nothing is logged and the log is emptied, so that objects use its pages and the file
does not grow. The only loss: after a restart, a watcher cannot resume from before that time.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bireme import private_files
from bireme.apiserver.records import Record, read_record
from bireme.apiserver.reserve import Reserve
from bireme.apiserver.tables import Snapshot, Staged, TableSnapshot
from bireme.apiserver.watch import Change

LAYOUT: Final = 1
_TRIM_EVERY: Final = 512
MOST_BYTES: Final = 256 * 1024 * 1024
_BUSY_SECONDS: Final = 1.0
_FULL: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)

# One entry for each layout: what makes it from the one before. Never change an entry that was released.
_MIGRATIONS: Final[tuple[str, ...]] = (
    """
    CREATE TABLE objects (
        resource TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (resource, key)
    ) WITHOUT ROWID;
    CREATE TABLE log (version INTEGER PRIMARY KEY, resource TEXT NOT NULL, key TEXT NOT NULL, before BLOB);
    CREATE TABLE about (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO about VALUES ('version', 1), ('horizon', 1);
    """,
)


class DatabaseError(Exception):
    """A database can't be used; the message is for people."""


class StorageError(Exception):
    """A group of writes could not be saved, and none of it was."""


class Database:
    """A store's file. Used by one thread at a time."""

    def __init__(self, path: Path, *, history: int, most_bytes: int = MOST_BYTES) -> None:
        """Open the file, or make it; `history` is how many changes the log keeps, in `most_bytes` at most."""
        self.path = path
        self._history, self._most_bytes = history, most_bytes
        self._since_trim = self._bytes_since_trim = 0
        try:
            # Secrets are in it. What SQLite puts beside it has the same mode.
            os.close(private_files.open_file(path, os.O_RDWR | os.O_CREAT))
            for name in ("-wal", "-shm", "-journal", "-reserve"):
                private_files.check_file(Path(f"{path}{name}"))
            self._reserve = Reserve(path)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._prepare()
            with contextlib.suppress(OSError):
                self._reserve.prepare()
        except private_files.UnsafeFileError as error:
            raise DatabaseError(error.message) from error
        except (sqlite3.Error, OSError) as error:
            raise DatabaseError(f"{path}: {error}") from error

    def load(self) -> Snapshot | None:
        """All that was saved; None if nothing ever was. Raises DatabaseError."""
        try:
            return self._load()
        except (sqlite3.Error, msgspec.MsgspecError, LookupError, TypeError, ValueError) as error:
            raise DatabaseError(
                f"{self.path} is damaged: {error}\n\n"
                "hint: put a copy of it back, or move it away to begin with nothing"
            ) from error

    def _load(self) -> Snapshot | None:
        version, horizon = self._about("version"), self._about("horizon")
        if version == 1:
            return None
        tables: dict[str, dict[str, Record]] = {}
        for resource, key, body in self._connection.execute("SELECT * FROM objects"):
            tables.setdefault(resource, {})[key] = read_record(key, body)
        changes = self._changes(tables)
        return Snapshot(
            version,
            {
                resource: TableSnapshot(tables.get(resource, {}), tuple(changes.get(resource, ())), horizon)
                for resource in {**tables, **changes}
            },
            horizon,
        )

    def commit(self, staged: Sequence[Staged]) -> None:
        """Save a group of changes: all of it, or none. Raises StorageError."""
        try:
            has_space = self._reserve.top_up(self._size())
            if not has_space and any(change.before is None for _, change in staged):
                raise StorageError(
                    f"the disk of {self.path.parent} is full: no object is created until there is space;"
                    " delete jobs, or free space on that disk"
                )
            with self._transaction():
                self._save(staged, keeps_log=has_space)
        except sqlite3.Error as error:
            raise StorageError(_explained(error, self.path)) from error

    def close(self) -> None:
        """Fold the journal into the file, and let go of it."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()
        self._reserve.close()

    # ---- layout

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        # FULL: a commit waits for the disk. NORMAL would lose the last commits in a power cut.
        run("PRAGMA synchronous = FULL")
        run("PRAGMA cache_size = -4096")
        run("PRAGMA journal_size_limit = 16777216")
        run(f"PRAGMA wal_autocheckpoint = {self._reserve.checkpoint_pages}")
        found: int = run("PRAGMA user_version").fetchone()[0]
        if found > LAYOUT:
            raise DatabaseError(
                f"{self.path} was written by a newer version (layout {found}, this one knows {LAYOUT})"
            )
        for number, migration in enumerate(_MIGRATIONS[found:], start=found + 1):
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {migration} PRAGMA user_version = {number}; COMMIT;"
            )

    def _size(self) -> int:
        """The size of the database in bytes, with the pages that are still in the WAL."""
        size: int = self._connection.execute(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).fetchone()[0]
        return size

    # ---- reading

    def _about(self, name: str) -> int:
        row = self._connection.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        value: int = row[0]
        return value

    def _changes(self, tables: dict[str, dict[str, Record]]) -> dict[str, list[Change]]:
        """The history: what is there now, undone change by change, gives what each change made."""
        current = {resource: dict(records) for resource, records in tables.items()}
        changes: dict[str, list[Change]] = {}
        rows = self._connection.execute(
            "SELECT version, resource, key, before FROM log ORDER BY version DESC"
        )
        for version, resource, key, body in rows:
            table = current.setdefault(resource, {})
            after = table.pop(key, None)
            before = None if body is None else read_record(key, body)
            if before is not None:
                table[key] = before
            changes.setdefault(resource, []).append(Change(version, key, before, after))
        return {resource: each[::-1] for resource, each in changes.items()}

    # ---- writing

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    def _save(self, staged: Sequence[Staged], *, keeps_log: bool) -> None:
        run = self._connection.executemany
        latest = _latest(staged)
        run(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, ?)",
            ((resource, key, after.raw) for (resource, key), after in latest if after),
        )
        run(
            "DELETE FROM objects WHERE resource = ? AND key = ?",
            (place for place, after in latest if after is None),
        )
        version = staged[-1].change.version
        run("UPDATE about SET value = ? WHERE name = ?", [(version, "version")])
        if not keeps_log:
            self._clear_log(version)
            return
        run(
            "INSERT INTO log VALUES (?, ?, ?, ?)",
            (
                (change.version, resource, change.key, change.before.raw if change.before else None)
                for resource, change in staged
            ),
        )
        self._since_trim += len(staged)
        self._bytes_since_trim += sum(change.weight for _, change in staged)
        if self._since_trim >= _TRIM_EVERY or self._bytes_since_trim > self._most_bytes // 2:
            self._trim(version)

    def _trim(self, version: int) -> None:
        """Forget the changes that are too old, or too much."""
        horizon = max(version - self._history, self._too_much())
        if horizon > self._about("horizon"):
            self._connection.execute("DELETE FROM log WHERE version <= ?", (horizon,))
            self._connection.execute("UPDATE about SET value = ? WHERE name = 'horizon'", (horizon,))
        self._since_trim = self._bytes_since_trim = 0

    def _clear_log(self, version: int) -> None:
        """Delete all entries; this version is where the log begins again."""
        self._connection.execute("DELETE FROM log")
        self._connection.execute("UPDATE about SET value = ? WHERE name = 'horizon'", (version,))
        self._since_trim = self._bytes_since_trim = 0

    def _too_much(self) -> int:
        """The latest change that must go, so that the rest is half of what all may be; 0 if none must."""
        row = self._connection.execute(
            "SELECT MAX(version) FROM"
            " (SELECT version, SUM(LENGTH(before)) OVER (ORDER BY version DESC) AS size FROM log)"
            " WHERE size > ?",
            (self._most_bytes // 2,),
        ).fetchone()
        return row[0] or 0


def _latest(staged: Iterable[Staged]) -> list[tuple[tuple[str, str], Record | None]]:
    """What each object is after a group: one that changed twice is saved once."""
    return list({(resource, change.key): change.after for resource, change in staged}.items())


def _explained(error: sqlite3.Error, path: Path) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _FULL:
        return f"can't write to {path.parent}: {error}; is the disk full?"
    return f"can't write to {path}: {error}"

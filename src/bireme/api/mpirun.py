"""What mpirun's arguments say: options, their values, and the slots that they imply.

Open MPI 4.1 takes long options with one dash or two, 5.0 only with two. An argument list is read here
once, so that admission and planning agree on what is an option and what is a value.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

# How many values an option takes, by name without dashes. An option not listed takes what follows it
# as long as that does not begin with a dash.
# fmt: off
_FLAGS: Final = (
    "allow-run-as-root", "bynode", "bycore", "byslot", "bysocket", "continuous", "d", "debug-daemons",
    "debug-daemons-file", "debug-devel", "disable-recovery", "display-allocation", "display-devel-allocation",
    "display-devel-map", "display-diffable-map", "display-map", "display-topo", "do-not-launch",
    "do-not-resolve", "enable-instant-on-support", "enable-recovery", "get-stack-traces", "h",
    "index-argv-by-rank", "leave-session-attached", "merge-stderr-to-stdout", "no-ready-msg", "nolocal",
    "nooversubscribe", "noprefix", "novm", "oversubscribe", "pernode", "q", "quiet", "report-bindings",
    "report-child-jobs-separately", "report-state-on-timeout", "s", "show-progress", "tag-output",
    "timestamp-output", "use-hwthread-cpus", "use-regexp", "v", "V", "verbose", "version",
)
_ONE_VALUE: Final = (
    "add-host", "add-hostfile", "am", "bind-to", "c", "cpu-list", "cpu-set", "default-hostfile", "display",
    "forward-signals", "H", "host", "hostfile",
    "machinefile", "map-by", "max-restarts", "n", "N", "np", "npernode", "npersocket", "output",
    "output-filename", "path", "personality", "ppr", "pre-launch", "prefix", "rank-by", "rankfile", "rf",
    "runtime-options", "stdin", "timeout", "tune", "wd", "wdir", "x", "xterm",
)
_TWO_VALUES: Final = ("gmca", "gomca", "gpmixmca", "gprtemca", "mca", "omca", "pmixmca", "prtemca")
# fmt: on
_ARITY: Final = {
    **dict.fromkeys(_FLAGS, 0),
    **dict.fromkeys(_ONE_VALUE, 1),
    **dict.fromkeys(_TWO_VALUES, 2),
}

HOST_OPTIONS: Final = frozenset(
    {"H", "host", "hostfile", "machinefile", "default-hostfile", "add-host", "add-hostfile"}
)
"""Options that choose hosts; Bireme writes the hostfile, so they are refused."""
DROPPED_OPTIONS: Final = frozenset({"enable-recovery", "max-restarts"})
"""Options that make Open MPI 4.1 report success when a rank failed."""

NUMBER_OPTIONS: Final = frozenset({"c", "n", "N", "np", "npernode", "npersocket"})
"""Options whose value is a number of ranks."""

_PER_NODE: Final = re.compile(r"ppr:([0-9]+):node\b.*", re.IGNORECASE)
_OVERSUBSCRIBED: Final = re.compile(r":oversubscribe", re.IGNORECASE)
"""The value of a `--map-by` that names no policy."""
_MAPPING_OPTIONS: Final = frozenset(
    {"N", "npernode", "npersocket", "pernode", "bynode", "byslot", "ppr", "rankfile", "rf"}
)
"""Options that choose a mapping of ranks to workers, beside `--map-by POLICY`."""
_BINDING_OPTIONS: Final = frozenset(
    {"cpu-list", "cpu-set", "cpus-per-proc", "cpus-per-rank", "rankfile", "rf"}
)
"""Options that bind ranks to CPUs, beside `--bind-to POLICY` and `--map-by POLICY:PE=N`."""
_BINDING_PARAMETERS: Final = frozenset(
    {
        "hwloc_base_binding_policy",
        "hwloc_base_cpu_list",
        "hwloc_default_binding_policy",
        "hwloc_default_cpu_list",
    }
)


_OUTPUT_OPTIONS: Final = frozenset({"output", "tag-output", "timestamp-output", "output-filename", "xml"})


class Option(msgspec.Struct, frozen=True):
    """An option and its values, as they stand in the list from `index` on.

    `--name=value` is one argument: the value is `joined`, and the list has no other.
    """

    index: int
    name: str
    values: tuple[str, ...]
    joined: str = ""

    @property
    def value(self) -> str:
        """Its only, or first, value; empty without one."""
        return self.joined or (self.values[0] if self.values else "")

    @property
    def end(self) -> int:
        return self.index + 1 + len(self.values)


def parse_options(arguments: Sequence[str]) -> list[Option]:
    """Split an argument list of mpirun into options; stray values belong to the option before them."""
    options: list[Option] = []
    position = 0
    while position < len(arguments):
        name, is_joined, joined = arguments[position].lstrip("-").partition("=")
        values: tuple[str, ...] = ()
        if arguments[position].startswith("-") and not is_joined:
            values = _values(name, arguments, position + 1)
        options.append(Option(position, name, values, joined))
        position = options[-1].end
    return options


def split_program(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command line of mpirun into its options and what it runs, with that program's arguments."""
    position = 0
    while position < len(words) and words[position].startswith("-") and words[position] != "--":
        position = parse_options(words[position:])[0].end + position
    has_mark = position < len(words) and words[position] == "--"
    return list(words[:position]), list(words[position + has_mark :])


def split_contexts(words: Sequence[str]) -> list[list[str]]:
    """Split a command line of mpirun into those of its programs, which a word `:` separates."""
    contexts: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            contexts.append([])
        else:
            contexts[-1].append(word)
    return contexts


def missing_values(option: Option) -> int:
    """How many values an option lacks; 0 if it is not known how many it takes."""
    return max(0, _ARITY.get(option.name, 0) - len(option.values) - bool(option.joined))


def unknown_options(arguments: Sequence[str]) -> list[str]:
    """The options of which it is not known whether they take a value, and that are followed by a word."""
    options = parse_options(arguments)
    return [arguments[each.index] for each in options if each.values and each.name not in _ARITY]


def _values(name: str, arguments: Sequence[str], start: int) -> tuple[str, ...]:
    if (arity := _ARITY.get(name)) is not None:
        return tuple(arguments[start : start + arity])
    following = arguments[start : start + 1]
    return tuple(following) if following and not following[0].startswith("-") else ()


def normalize(arguments: Sequence[str]) -> list[str]:
    """Write long options with two dashes, which 4.1 and 5.0 both take, and drop the harmful ones.

    Oversubscription without a mapping is mapped by slot, as 4.1 does it anyway: 5.0 would put every rank on
    the first worker.
    """
    result: list[str] = []
    options = parse_options(arguments)
    for option in options:
        if option.name in DROPPED_OPTIONS:
            continue
        first = arguments[option.index]
        is_long = first.startswith("-") and not first.startswith("--") and len(option.name) > 1
        result += [f"-{first}" if is_long else first, *option.values]
    if any(option.name == "oversubscribe" for option in options) and not any(map(_maps, options)):
        result += ["--map-by", "slot"]
    return [f"slot{word}" if _OVERSUBSCRIBED.fullmatch(word) else word for word in result]


def spell_long_options(words: Sequence[str]) -> list[str]:
    """Write long options of a command line of mpirun with two dashes, and leave its program as it is.

    Only options that are known are changed: the command line may be that of another MPI.
    """
    result = list(words)
    arguments, _ = split_program(words)
    for option in parse_options(arguments):
        word = words[option.index]
        if len(option.name) > 1 and option.name in _ARITY and word.startswith("-") and word[1:2] != "-":
            result[option.index] = f"-{word}"
    return result


def _maps(option: Option) -> bool:
    """Whether an option chooses a mapping of ranks to workers."""
    return option.name == "map-by" or option.name in _MAPPING_OPTIONS


def asks_to_bind(arguments: Sequence[str], parameters: Collection[str] = ()) -> bool:
    """Whether mpirun's arguments or the names of MCA parameters choose how ranks are bound to CPUs."""
    return any(map(_binds, parse_options(arguments))) or not _BINDING_PARAMETERS.isdisjoint(parameters)


def binds_by_variable(name: str, value: str) -> bool:
    """Whether an environment variable chooses how ranks are bound to CPUs."""
    for prefix in ("OMPI_MCA_", "PRTE_MCA_"):
        if name.startswith(prefix) and name.removeprefix(prefix) in _BINDING_PARAMETERS:
            return value.partition(":")[0].lower() != "none"
    return False


def _binds(option: Option) -> bool:
    words = option.value.lower().split(":")
    if option.name == "bind-to":
        return words[0] != "none"
    if option.name == "map-by":
        return any(word.startswith("pe=") for part in words for word in part.split(","))
    if option.name in _TWO_VALUES:
        return option.value in _BINDING_PARAMETERS
    return option.name in _BINDING_OPTIONS


def process_count(arguments: Sequence[str]) -> int | None:
    """The number of ranks that `-np`, `-n` or `-c` asks for."""
    return _last_number(arguments, {"np", "n", "c"})


def total_processes(arguments: Sequence[str], command: Sequence[str]) -> int | None:
    """The number of ranks of all programs that a command line starts; None if the first has no number.

    In `command`, a word `:` begins another program, with options of its own.
    """
    first = process_count(arguments)
    if first is None:
        return None
    others = (split_program(context)[0] for context in split_contexts(command)[1:])
    return first + sum(process_count(options) or 1 for options in others)


def exported_variables(arguments: Sequence[str]) -> tuple[str, ...]:
    """The variables that `-x NAME` exports with the values that mpirun finds."""
    options = parse_options(arguments)
    return tuple(option.value for option in options if option.name == "x" and "=" not in option.value)


def chooses_output(arguments: Sequence[str]) -> bool:
    """Whether an option says how mpirun shows the output of ranks."""
    return any(option.name in _OUTPUT_OPTIONS for option in parse_options(arguments))


def stdin_option(arguments: Sequence[str]) -> str | None:
    """The rank to which `--stdin` sends standard input, or `all` or `none`; None without that option."""
    return next((option.value for option in parse_options(arguments) if option.name == "stdin"), None)


def slots_per_worker(arguments: Sequence[str], workers: int, command: Sequence[str] = ()) -> int:
    """Slots of each worker: per-node options first, else ranks spread over workers, else 1."""
    per_node = ranks_per_node(arguments)
    if per_node is not None:
        return per_node
    ranks = total_processes(arguments, command)
    return -(-ranks // workers) if ranks and workers else 1


def worker_of(arguments: Sequence[str], rank: int, workers: int, slots: int) -> int | None:
    """The index of the worker that a rank runs on; None where the arguments leave it open."""
    for option in parse_options(arguments):
        words = option.value.lower().split(":") if option.value else []
        if option.name in ("rf", "rankfile", "npersocket"):
            return None
        if option.name == "bynode" or (option.name in ("map-by", "rank-by") and words[:1] == ["node"]):
            return rank % workers
        if option.name in ("map-by", "rank-by") and words[:1] not in (["slot"], ["core"], ["ppr"]):
            return None
    index = rank // max(slots, 1)
    return index if index < workers else None


def ranks_per_node(arguments: Sequence[str]) -> int | None:
    """What `-N`, `-npernode`, `-pernode` or `--map-by ppr:n:node` asks for."""
    number = _last_number(arguments, {"N", "npernode"})
    for option in parse_options(arguments):
        if option.name == "map-by" and (match := _PER_NODE.fullmatch(option.value)):
            number = int(match[1])
        elif option.name == "pernode":
            number = 1
    return number or None


def _last_number(arguments: Sequence[str], names: set[str]) -> int | None:
    number = None
    for option in parse_options(arguments):
        if option.name in names and option.value.isdecimal():
            number = int(option.value)
    return number or None

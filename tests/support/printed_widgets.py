"""Kinds of CRDs with columns of every sort, and objects that fill them or do not."""

from typing import Any

from bireme.apiserver.kinds import Column, Kind

Object = dict[str, Any]
GROUP = "printing.example.com"
PATHS = {
    "a string": ".spec.text",
    "a number as text": ".spec.whole",
    "a fraction as text": ".spec.fraction",
    "a small fraction as text": ".spec.small",
    "a large one as text": ".spec.large",
    "truth as text": ".spec.yes",
    "an object as text": ".spec.object",
    "a list as text": ".spec.list",
    "null as text": ".spec.nothing",
    "missing": ".spec.missing",
    "below the missing": ".spec.missing.deeper[0]",
    "below a string": ".spec.text.x",
    "first": ".spec.list[0]",
    "last": ".spec.list[-1]",
    "beyond": ".spec.list[9]",
    "before": ".spec.list[-9]",
    "no index": ".spec.list[]",
    "tail": ".spec.list[-2:]",
    "middle": ".spec.list[1:2]",
    "strided": ".spec.list[1:3:2]",
    "no stride": ".spec.list[0:2:0]",
    "nothing of it": ".spec.list[1:1]",
    "backwards": ".spec.list[2:1]",
    "all": ".spec.list[*]",
    "index of a string": ".spec.text[0]",
    "index of null": ".spec.nothing[0]",
    "field of all": ".spec.conditions[*].type",
    "last field": ".spec.conditions[-1:].type",
    "empty tail": ".spec.empty[-1:]",
    "empty all": ".spec.empty[*]",
    "filtered": '.spec.conditions[?(@.type=="Ready")].status',
    "filtered in single quotes": ".spec.conditions[?(@.type=='Ready')].status",
    "filtered with spaces": '.spec.conditions[?( @.type == "Ready" )].status',
    "filtered otherwise": '.spec.conditions[?(@.type!="Ready")].type',
    "filtered by a number": ".spec.conditions[?(@.count>1)].type",
    "filtered by equal numbers": ".spec.conditions[?(@.count>=2)].type",
    "filtered by a lesser number": ".spec.conditions[?(@.count<2)].type",
    "filtered by a fraction": ".spec.conditions[?(@.count==2.0)].type",
    "filtered by truth": ".spec.conditions[?(@.set==true)].type",
    "ordered truth": ".spec.conditions[?(@.set<true)].type",
    "filtered by a word": ".spec.conditions[?(@.type==Ready)].type",
    "filtered by a field": ".spec.conditions[?(@.type==@.reason)].type",
    "filtered by existence": ".spec.conditions[?(@.reason)].type",
    "filtered by a failure": ".spec.conditions[?(@.list[7])].type",
    "filtered with a parenthesis": '.spec.conditions[?(@.reason==")")].type',
    "filtered by no operator": '.spec.conditions[?(@.type="Ready")].type',
    "filtered strings": ".spec.object[?(@.x==1)]",
    "filtered null": ".spec.nothing[?(@.x==1)]",
    "quoted key": ".spec['text']",
    "dotted key": r".spec.object.dotted\.key",
    "dots in quotes": ".spec['object.a']",
    "escaped in quotes": r".spec.object['dotted\.key']",
    "two keys": ".spec['missing','text']",
    "two indexes": ".spec.list[2,0]",
    "wildcard": ".spec.single.*",
    "wildcard of a list": ".spec.list.*",
    "descent": ".spec..unique",
    "descent to all": ".spec..",
    "the end": ".",
    "after spaces": ".spec .text",
    "root": ".$.spec.text",
    "more": ".spec.text}{.spec.whole",
}
FIELDS = (
    "text", "whole", "fraction", "yes", "object", "nothing", "date", "hour", "emptyText", "nullText",
    "zeroDate", "day", "fractionOfDate", "zoned", "ancient", "ahead",
)  # fmt: skip
WIDGET = Kind(
    group=GROUP, plural="widgets", kind="Widget", custom=True,
    columns=(
        *(Column(name=name, type="string", json_path=path) for name, path in PATHS.items()),
        *(
            Column(name=f"{field} as {kind}", type=kind, json_path=f".spec.{field}")
            for kind in ("integer", "number", "boolean", "date")
            for field in FIELDS
        ),
        Column(name="Described", type="integer", json_path=".spec.whole", description="A whole.", priority=1,
               format="int32"),
    ),
)  # fmt: skip
PLAIN = Kind(group=GROUP, plural="gadgets", kind="Gadget", custom=True)
BROKEN = Kind(
    group=GROUP, plural="gizmos", kind="Gizmo", custom=True,
    columns=tuple(
        Column(name=name, type="string", json_path=path)
        for name, path in (("one", ".spec.text"), ("broken", ".spec[?(@.a"), ("three", ".spec.text"))
    ),
)  # fmt: skip
SPEC = {
    "text": "a <text> & more", "whole": 7, "fraction": 2.75, "small": 0.0000001, "large": 1e21, "yes": True,
    "object": {"dotted.key": "found", "a": "1 < 2 & 3", "b": [1.0, 2.5, 1e-7, 1e22, None]},
    "list": ["x", "y", "z"], "nothing": None, "empty": [], "emptyText": "", "nullText": "null",
    "single": {"only": "child"}, "deep": {"deeper": [{"unique": "treasure"}]},
    "date": "2019-05-06T07:08:09Z", "zeroDate": "0001-01-01T00:00:00Z", "day": "2019-05-06",
    "hour": "2019-05-06T7:08:09Z",
    "fractionOfDate": "2019-05-06T07:08:09.123456789Z", "zoned": "2019-05-06T07:08:09+02:00",
    "ancient": "0001-01-01T00:00:01Z", "ahead": "2219-05-06T07:08:09Z",
    "conditions": [
        {"type": "Done", "status": "False", "count": 1, "set": False},
        {"type": "Ready", "status": "True", "count": 2, "set": True, "reason": ")", "list": []},
        {"type": "Same", "status": "True", "count": 3, "set": True, "reason": "Same", "list": []},
    ],
}  # fmt: skip
CUSTOM = (WIDGET, PLAIN, BROKEN)
WIDGETS: list[tuple[Kind, str, Object]] = [
    *((kind, name, {"spec": spec}) for kind in CUSTOM for name, spec in (("full", SPEC), ("empty", {}))),
    (WIDGET, "nulls", {"spec": {"conditions": [{"type": None, "count": 2.0}, {"type": {}}], "list": [None]}}),
]

# SPDX-License-Identifier: Apache-2.0
"""Seeds of preprocessing.json: a record of each kind, and some that contradict themselves."""
import json

from seeds.corpus import put

TABLE = {"version": 1, "source": "csv", "task": "regression",
         "input": {"dtype": "f32", "shape": [4]}, "target": {"dtype": "f32", "shape": [1]},
         "scale": [], "shift": [], "classes": 0, "class_names": [],
         "table": {"separator": ";",
                   "columns": [{"name": "a", "kind": "numeric", "mean": 0.1, "deviation": 2,
                                "missing": 3},
                               {"name": "b", "kind": "one-hot", "categories": ["x", "y"],
                                "missing": "category"}],
                   "targets": [{"name": "t", "mean": -1e300, "deviation": 1e-300}],
                   "dropped": ["c"], "id_columns": ["c"]}}
STREET = {"name": "s", "kind": "embedded", "categories": ["p", "q", "r"], "missing": "category"}
EMBEDDED = {**TABLE, "input": {"dtype": "f32", "shape": [5]},
            "table": {**TABLE["table"], "columns": [*TABLE["table"]["columns"], STREET]},
            "embedded": [{"feature": 4, "categories": 4}]}
IMAGE = {"version": 1, "source": "images", "task": "classification",
         "input": {"dtype": "u8", "shape": [8, 9, 3]}, "target": {"dtype": "i32", "shape": []},
         "scale": [0.01, 0.02, 0.03], "shift": [-1, 0, 1], "classes": 2,
         "class_names": ["cat", "dög"], "ignore_index": -100,
         "image": {"width": 9, "height": 8, "channels": 3, "short_side": 12}}
TEXT = {"version": 1, "source": "text", "task": "next-token",
        "input": {"dtype": "i32", "shape": [16]}, "target": {"dtype": "i32", "shape": [16]},
        "scale": [], "shift": [], "classes": 3, "class_names": ["\n", "a", "é"]}


def write() -> None:
    def seed(name, record, **changes):
        put("preprocessing", name, json.dumps({**record, **changes}, ensure_ascii=False))

    for name, record in (("table", TABLE), ("embedded", EMBEDDED), ("image", IMAGE),
                         ("text", TEXT)):
        seed(name, record)
    seed("embedded_elsewhere", EMBEDDED, embedded=[{"feature": 2**39, "categories": 4}])
    seed("embedded_image", IMAGE, embedded=[{"feature": 0, "categories": 2**62}])
    seed("newer", TEXT, version=2)
    seed("names_missing", TEXT, class_names=["a"])
    seed("classes_negative", TEXT, classes=-1)
    seed("other_task", TABLE, task="classification")
    alike = {"a": {"place": 2, "columns": 3}}
    seed("named_alike", TABLE, table={**TABLE["table"], "named_alike": alike})
    seed("named_alike_past", TABLE, table={**TABLE["table"], "named_alike": {"a": {"place": 9, "columns": 3}}})
    seed("huge_shape", TABLE, input={"dtype": "f32", "shape": [2**40, 2**40]})
    seed("deep_shape", TABLE, input={"dtype": "f32", "shape": [1] * 7})
    seed("image_larger_than_sample", IMAGE, image={**IMAGE["image"], "width": 10})
    seed("scale_too_large", IMAGE, scale=[1e300, 1, 1])

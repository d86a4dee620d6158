# SPDX-License-Identifier: Apache-2.0
"""Layers: the hidden snapshots in which a template build keeps the results of its steps."""

import os

from cubbyd import Daemon
from key_holder import ask, new_key
from test_daemon_keys import taken
from test_daemon_snapshots import delete, entries, ids, read, take, write

KEY = "0123456789abcdef" * 4
LAYER = f"layer:{KEY}"


def test_a_layer_is_hidden_and_has_a_key():
    with Daemon("--max-snapshots", "1") as d:
        made = d.create()
        write(d, made, "notes", "built")
        answer = take(d, made["sandboxID"], name=LAYER)
        assert answer.status == 201 and answer.json["names"] == []
        snapshot = answer.json["snapshotID"]
        assert ids(d) == [] and ids(d, f"?sandboxID={made['sandboxID']}") == []
        assert d.request("POST", "/v2/sandboxes", {"templateID": snapshot}).status == 404
        assert d.request("GET", f"/templates/{LAYER}").status == 200
        assert d.request("GET", f"/templates/layer:{'f' * 64}").status == 404

        ordinary = take(d, made["sandboxID"])
        assert ordinary.status == 201, "a layer does not count for the limit of snapshots"
        assert ids(d) == [ordinary.json["snapshotID"]]
        assert take(d, made["sandboxID"]).status == 429

        record = d.home / "snapshots" / snapshot / "snapshot.json"
        os.utime(record, (1, 1))
        assert read(d, d.create(templateID=LAYER), "notes") == "built"
        assert record.stat().st_mtime > 1, "the time of its last use"

        d.stop()
        d.start()
        assert ids(d) == [ordinary.json["snapshotID"]]
        assert read(d, d.create(templateID=LAYER), "notes") == "built"
        assert delete(d, LAYER).status == 204 and entries(d) == [ordinary.json["snapshotID"]]
        assert d.request("GET", f"/templates/{LAYER}").status == 404


def test_a_key_has_no_layers():
    with Daemon("--listen", "127.0.0.1:0") as d:
        key = new_key(d, "eve")
        taken(d, key)
        assert take(d, d.create()["sandboxID"], name=LAYER).status == 201
        assert ask(d, "GET", f"/templates/{LAYER}", key=key).status == 404
        assert ask(d, "POST", "/v2/sandboxes", {"templateID": LAYER}, key).status == 404
        assert ask(d, "DELETE", f"/templates/{LAYER}", key=key).status == 404
        made = ask(d, "POST", "/v2/sandboxes", {"templateID": "default"}, key)
        assert made.status == 201
        refused = ask(d, "POST", f"/sandboxes/{made.json['sandboxID']}/snapshots", {"name": LAYER}, key)
        assert refused.status == 400 and "name must be" in refused.json["message"]
        assert ask(d, "GET", "/snapshots", key=key).json == []

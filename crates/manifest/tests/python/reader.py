#!/usr/bin/env python3
"""Reads a session's directory by its format document alone: prints one JSON object a line, sorted by name: {"anchor"},
{"manifest", "state", "total_bytes", ...}, {"corrupt"}, {"newer", "version"}. Standard library only."""
import json, os, re, sys

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)
STATES = ["starting", "running", "terminal"]


class Newer(Exception):
    """A file of a later version."""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def unseal(path):
    """The object in a sealed file; ValueError when it is damaged."""
    with open(path, "rb") as file:
        data = file.read(1048577)
    seal = re.fullmatch(rb'(.*),\n  "checksum": "(.{8})"\n\}\n', data, re.DOTALL)
    if len(data) > 1048576 or seal and seal[2] != b"%08x" % crc32c(seal[1]):
        raise ValueError("too long, or the checksum does not hold")
    version = json.loads(data)["version"]
    if version > 1:
        raise Newer(version)
    if not seal or version != 1:
        raise ValueError("not sealed")
    return json.loads(seal[1] + b"}")


def progress(record):
    """What only grows: a draft that is behind its manifest in any of it is a leftover."""
    state = STATES.index(record["state"]) if record["state"] in STATES else 2
    spool, published = record["spool"], record["published"]
    return (state, spool["total_bytes"], spool["retained_from"], record["handed_over"], record["storage_degraded"],
            published["completion"], published["notification"], record.get("evicted", False),
            "stop_requested" in record, len(record.get("transfers", [])))  # fmt: skip


def manifest(directory, name):
    """The record of a process: the manifest, or the draft beside it where that is later."""
    handle = name[: -len(".manifest.json")]
    record = unseal(os.path.join(directory, name))
    if not re.fullmatch(r"[\w-]{21}[AQgw]", handle, re.ASCII) or record["identity"]["handle"] != handle:
        raise ValueError("of another process")
    try:
        draft = unseal(os.path.join(directory, handle + ".draft.json"))
        if draft["identity"]["handle"] == handle and all(map(int.__ge__, progress(draft), progress(record))):
            return draft
    except (FileNotFoundError, ValueError, KeyError):
        pass
    return record


def main(directory):
    for name in sorted(os.listdir(directory)):
        try:
            if name == "anchor.json":
                print(json.dumps({"anchor": unseal(os.path.join(directory, name))["session"]}))
            elif name.endswith(".manifest.json"):
                found = manifest(directory, name)
                print(json.dumps({"manifest": name, "record": found}))
        except Newer as newer:
            print(json.dumps({"newer": name, "version": newer.args[0]}))
        except (ValueError, KeyError, OSError):
            print(json.dumps({"corrupt": name}))


main(sys.argv[1])

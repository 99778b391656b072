#!/usr/bin/env python3
"""Reads a spool by its format document alone: prints one JSON object a line, {"cursor", "stream", "hex"} for output,
{"from", "until"} for what is missing, {"cursor", "rows", "cols"} for a size of the terminal. Standard library only."""
import json, os, re, struct, sys

BLOCK, HEADER = 16384, 32
TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def frame(data, at, end):
    """(kind, stream, cursor, end cursor, payload, next offset) of a frame that is whole and unharmed, else None."""
    if at + 24 > end:
        return None
    crc, kind, stream, length, cursor, _time = struct.unpack_from("<IBBHQq", data, at)
    payload = data[at + 24 : at + 24 + length]
    if at + 24 + length > end or crc != crc32c(data[at + 4 : at + 24 + length]):
        return None
    if kind == 1 and length > 0 and stream in (1, 2, 3):
        after = cursor + length
    elif kind == 2 and length == 8 and struct.unpack("<Q", payload)[0] > cursor:
        after = struct.unpack("<Q", payload)[0]
    elif kind == 3 and length == 4:
        after = cursor
    else:
        return None
    return kind, stream, cursor, after, payload, at + 24 + length


def segment(data, expected, limit):
    """Yields what the frames of one segment say; limit is the next segment's name, None for the last segment."""
    for start in range(0, len(data), BLOCK):
        at, end, first = start + (HEADER if start == 0 else 0), min(start + BLOCK, len(data)), True
        while (found := frame(data, at, end)) is not None:
            kind, stream, cursor, after, payload, at = found
            resumes = first and cursor > expected and (limit is None or cursor < limit)
            if cursor != expected and not resumes or limit is not None and after > limit:
                break
            if resumes:
                yield {"from": expected, "until": cursor}
            if kind == 1:
                yield {"cursor": cursor, "stream": stream, "hex": payload.hex()}
            elif kind == 2:
                yield {"from": cursor, "until": after}
            else:
                rows, cols = struct.unpack("<HH", payload)
                yield {"cursor": cursor, "rows": rows, "cols": cols}
            first, expected = False, after
    if limit is not None and expected < limit:
        yield {"from": expected, "until": limit}


def main(spool):
    names = sorted(name for name in os.listdir(spool) if re.fullmatch(r"\d{20}\.seg", name))
    for name, following in zip(names, names[1:] + [None]):
        with open(os.path.join(spool, name), "rb") as file:
            data = file.read()
        if data[:8] == b"PRCYSPL\n" and data[28:32] == struct.pack("<I", crc32c(data[:28])):
            version = struct.unpack_from("<H", data, 8)[0]
            if version != 1:
                sys.exit(f"{name}: version {version}")
        for item in segment(data, int(name[:20]), following and int(following[:20])):
            print(json.dumps(item))


main(sys.argv[1])

"""Random training data, in the formats of naspipe-recipe(5): each function writes files into a
folder and returns (kind and files of data.train, space.input)."""

import os
import struct


def _write(folder, name, content):
    with open(os.path.join(folder, name), "wb") as out:
        out.write(content)
    return name


def _idx(kind, dims, content):
    return struct.pack(f">BBBB{len(dims)}I", 0, 0, kind, len(dims), *dims) + content


def _cifar(r, folder):
    classes = r.choice([10, 100])
    labels = [19, 99] if classes == 100 else [9]
    pictures = [bytes(r.randint(0, most) for most in labels) + r.randbytes(3072)
                for _ in range(r.choice([12, 20]))]
    name = _write(folder, "batch.bin", b"".join(pictures))
    return {"kind": f"cifar{classes}", "files": [name]}, {
        "kind": "images", "height": 32, "width": 32, "channels": 3, "classes": classes}


def images(r, folder):
    if r.random() < 0.08:
        return _cifar(r, folder)
    height = r.choice([1, 2, 3, 5, 7, 8, 9, 12, 16, 17])
    width = r.choice([1, 2, 3, 4, 6, 7, 9, 13, 16, 19])
    channels = r.choice([1, 1, 2, 3, 5, 17])
    classes = r.choice([2, 3, 5, 10, 17, 33])
    n = r.choice([20, 33, 64])
    more = r.choice([(0, 0), (0, 0), (1, 0), (3, 2)])
    stored = [height + more[0], width + more[1]]
    dims = [n, *stored] + ([channels] if channels > 1 else [])
    kind, form = r.choice([(0x8, "B"), (0xB, "h"), (0xC, "i")])
    labels = struct.pack(f">{n}{form}", *(r.randrange(classes) for _ in range(n)))
    pixels = r.randbytes(n * stored[0] * stored[1] * channels)
    files = [_write(folder, "images.idx", _idx(0x8, dims, pixels)),
             _write(folder, "labels.idx", _idx(kind, [n], labels))]
    data = {"kind": "idx", "files": files, "mean": [0.5] * channels,
            "std": [r.choice([0.25, 0.5, 1.0])] * channels}
    if any(more):
        data["stored"] = stored
    return data, {"kind": "images", "height": height, "width": width, "channels": channels,
                  "classes": classes}


def _text(r, letters, count):
    return bytes(r.choice(letters) for _ in range(count))


def text(r, folder):
    files = [_write(folder, f"text{i}", _text(r, b"abcdefgh \n", r.choice([300, 2000])))
             for i in range(r.choice([1, 1, 3]))]
    return {"kind": "bytes", "files": files}, {"kind": "tokens", "vocab": r.choice([256, 257, 300])}


def tokens(r, folder):
    vocab, count = r.choice([2, 3, 17, 65, 300]), 500
    magic, version, form = r.choice([(20240520, 1, "H"), (20240801, 7, "I")])
    content = struct.pack("<256i", magic, version, count, *[0] * 253)
    content += struct.pack(f"<{count}{form}", *(r.randrange(vocab) for _ in range(count)))
    return {"kind": "tokens", "files": [_write(folder, "tokens.bin", content)]}, {
        "kind": "tokens", "vocab": vocab}


def pairs(r, folder):
    lines = [_text(r, letters, r.randrange(20)) + end
             for _ in range(40) for letters, end in [(b"abcdef", b"\t"), (b"ABC", b"\n")]]
    kind, vocab = "pairs", 256
    if r.random() < 0.5:
        kind, vocab = "token_pairs", 17
        lines = [b" ".join(b"%d" % (byte % 16 + 1) for byte in side[:-1]) + side[-1:]
                 for side in lines]
    return {"kind": kind, "files": [_write(folder, "pairs.tsv", b"".join(lines))]}, {
        "kind": "pairs", "vocab": vocab, "source_length": r.choice([1, 3, 7, 17, 33]),
        "padding": r.choice(["seen", "masked"])}

"""Runs Kiln's programs on files, for the scripts beside this one. Needs numpy."""
import json
import os
import struct
import subprocess
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]


def program(name, *arguments):
    """Runs `kiln` or an example, built ones of KILN_BIN_DIR if it is set, and gives its standard output."""
    folder = os.environ.get("KILN_BIN_DIR")
    if folder:
        command = [str(Path(folder) / ("kiln" if name == "kiln" else f"examples/{name}"))]
    else:
        kind = ["--bin", "kiln"] if name == "kiln" else ["--example", name]
        command = ["cargo", "run", "--quiet", "--release", *kind, "--"]
    done = subprocess.run([*command, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def write_safetensors(path, tensors, metadata=None):
    header, body = {"__metadata__": metadata or {}}, b""
    names = {"float32": "F32", "int64": "I64"}
    for name, array in tensors.items():
        data = numpy.ascontiguousarray(array).tobytes()
        header[name] = {
            "dtype": names[str(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [len(body), len(body) + len(data)],
        }
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def read_f32(path, name):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])[name]
    begin, end = entry["data_offsets"]
    body = data[8 + length :]
    return numpy.frombuffer(body[begin:end], dtype="<f4").reshape(entry["shape"])


def kiln_logits(weights, images, folder, *options):
    """Logits of a weights file for images, a float32 array [B, 3, H, W]."""
    write_safetensors(folder / "images.safetensors", {"images": images})
    output = folder / "logits.safetensors"
    program("logits", weights, "--images", folder / "images.safetensors", "--output", output, *options)
    return read_f32(output, "logits")


def compare(what, found, expected, tolerance):
    largest = float(numpy.abs(expected).max())
    error = float(numpy.abs(found - expected).max())
    verdict = "ok" if error <= tolerance * max(1.0, largest) else "TOO FAR"
    print(f"{what:55} largest logit {largest:8.3f}  error {error:.2e}  {verdict}")
    return verdict == "ok"

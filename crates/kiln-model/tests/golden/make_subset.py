"""Cuts this folder's golden numbers out of the full set: make_subset.py FULL_SET

Writes formula.json, five key lists, the smallest checkpoints, and some entries of forward.safetensors and train_narrow.safetensors,
with the manifest's entries for them, beside this script. Needs only Python's standard library.
"""
import hashlib
import json
import struct
import sys
from pathlib import Path

KEYS = ["resnet18", "resnet34", "resnet50", "resnext50_32x4d", "timm_resnet50d"]
CHECKPOINTS = [
    "edge_tensors.pth",
    "edge_tensors.safetensors",
    "edge_tensors_legacy.pth",
    "resnet18_full_layout_expanded.pth",
    "unknown_global.pth",
]
FORWARD_RUNS = ["resnet18/2x3x64x64"]
NARROW_RUNS = ["grads_ls0.1", "sgd_nesterov_wd_excl_1d"]
NARROW_NETWORKS = ["narrow_r18", "narrow_bottleneck"]


def read_safetensors(path):
    """Header entry and bytes of each tensor, in file order."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    cut = lambda info: body[info["data_offsets"][0] : info["data_offsets"][1]]
    return {name: (info, cut(info)) for name, info in header.items()}


def write_safetensors(path, tensors):
    header, body = {}, b""
    for name, (info, data) in tensors.items():
        header[name] = {**info, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def main(full, here):
    manifest = json.loads((full / "manifest.json").read_text())
    files = {}

    def keep(name, data=None, **changes):
        if data is None:
            (here / name).parent.mkdir(exist_ok=True)
            (here / name).write_bytes((full / name).read_bytes())
        else:
            write_safetensors(here / name, data)
        written = (here / name).read_bytes()
        size = {"bytes": len(written), "sha256": hashlib.sha256(written).hexdigest()}
        files[name] = {**manifest["files"][name], **changes, **size}

    keep("formula.json")
    for name in KEYS:
        keep(f"keys/{name}.txt")
    for name in CHECKPOINTS:
        keep(f"checkpoints/{name}")

    def cut(name, wanted, also=()):
        tensors = read_safetensors(full / name)
        below = tuple(run + "/" for run in wanted)
        tensors = {key: value for key, value in tensors.items() if key.startswith(below)}
        runs = manifest["files"][name]["runs"]
        keep(name, tensors, runs={run: runs[run] for run in [*wanted, *also]})

    cut("forward.safetensors", FORWARD_RUNS)
    narrow = [f"{network}/{run}" for network in NARROW_NETWORKS for run in NARROW_RUNS]
    cut("train_narrow.safetensors", narrow, also=NARROW_NETWORKS)

    (here / "manifest.json").write_text(json.dumps({**manifest, "files": files}, indent=1) + "\n")
    total = sum(path.stat().st_size for path in here.rglob("*") if path.is_file())
    print(f"{total} bytes in {here}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent)

"""Cuts this folder's golden numbers out of the full set: make_subset.py FULL_SET

Writes the schedules, the metrics, the averages, the optimisers' traces and two runs of train_narrow.safetensors, with the manifest's
entries for them, beside this script. Needs only Python's standard library.
"""
import hashlib
import json
import struct
import sys
from pathlib import Path

WHOLE = ["ema.safetensors", "metrics.json", "metrics.safetensors", "optim.safetensors"]
NETWORK = "narrow_bottleneck"
RUNS = [f"{NETWORK}/sgd_nesterov_wd_excl_1d", f"{NETWORK}/adamw_wd_excl_1d", "narrow_r18/sgd_nesterov_wd_excl_1d"]


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

    def note(name, **changes):
        written = (here / name).read_bytes()
        size = {"bytes": len(written), "sha256": hashlib.sha256(written).hexdigest()}
        files[name] = {**manifest["files"][name], **changes, **size}

    schedules = sorted(name for name in manifest["files"] if name.startswith("lr/"))
    for name in [*schedules, *WHOLE]:
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_bytes((full / name).read_bytes())
        note(name)

    def cut(name, wanted, **changes):
        tensors = read_safetensors(full / name)
        write_safetensors(here / name, {key: value for key, value in tensors.items() if wanted(key)})
        note(name, **changes)

    runs = manifest["files"]["train_narrow.safetensors"]["runs"]
    runs = {name: runs[name] for name in [*RUNS, NETWORK, "narrow_r18"]}
    cut("train_narrow.safetensors", lambda name: name.startswith(tuple(run + "/" for run in RUNS)), runs=runs)

    (here / "manifest.json").write_text(json.dumps({**manifest, "files": files}, indent=1) + "\n")
    total = sum(path.stat().st_size for path in here.rglob("*") if path.is_file())
    print(f"{total} bytes in {here}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent)

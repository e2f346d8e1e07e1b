#!/usr/bin/env python3
"""Writes the part of a golden folder that kiln-data's tests need into the repository.

    tools/golden/subset_transforms.py GOLDEN_DIR crates/kiln-data/tests/golden

GOLDEN_DIR is a folder of torchvision's results with a manifest.json; the output has the same form: manifest.json with
the entries and cases that are kept, the versions that made them, and the safetensors files with only those tensors.
Needs nothing but Python.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

# Small enough for the repository, and at least one case of every operation that kiln-data has.
KEPT = {
    "transforms_small.safetensors": [
        "small/hflip/u8",
        "small/crop/u8",
        "small/crop_outside_zero_pad/u8",
        "small/resized_crop_bilinear_aaTrue/u8",
        "small/resized_crop_bilinear_aaTrue/f32",
        "small/resized_crop_bilinear_aaFalse/u8",
        "small/resize_down_bilinear_aaTrue/u8",
        "small/resize_down_bilinear_aaTrue/f32",
        "small/resize_down_bilinear_aaFalse/f32",
        "small/resize_up_bilinear_aaTrue/u8",
        "small/resize_shorter/u8",
        "small/resize_shorter_max_size/u8",
        "small/center_crop/u8",
        "small/center_crop_larger/u8",
        # One of every operation, in bytes, and in floats what bytes would hide.
        "small/vflip/u8",
        "small/resize_bicubic_aaTrue/u8",
        "small/resize_nearest/u8",
        "small/resize_nearest_exact/u8",
        "small/pad_reflect/u8",
        "small/rotate_nearest/u8",
        "small/rotate_bilinear/u8",
        "small/affine_bilinear/u8",
        "small/perspective/u8",
        "small/brightness_0.6/u8",
        "small/contrast_1.45/u8",
        "small/saturation_0.6/u8",
        "small/hue_0.12/u8",
        "small/gamma_1.8/u8",
        "small/grayscale3/u8",
        "small/posterize/u8",
        "small/solarize_u8/u8",
        "small/autocontrast/u8",
        "small/equalize/u8",
        "small/invert/u8",
        "small/sharpness_1.8/u8",
        "small/gaussian_blur_aniso/u8",
        "small/erase_zero/u8",
        "small/aug_ShearX_0.3/u8",
        "small/aug_TranslateY_5.0/u8",
        "small/aug_Rotate_9.0_bilinear/u8",
        "small/rotate_bilinear/f32",
        "small/hue_-0.31/f32",
        "small/contrast_0.6/f32",
        "small/erase_value/f32",
    ],
    "transforms_mix.safetensors": [
        "mix/tv_cutmix/f32",
        "mix/tv_cutmix/labels",
        "mix/timm_mixup/f32",
        "mix/timm_mixup/labels",
    ],
}
LAWS = ["image_wh", "quantile_levels", "tolerance", "fallback_examples", "mixup_cutmix", "tv_random_erasing_224"]
LAW_PREFIX = "tv_rrc_"
LAW_FIELDS = ["n", "area_fraction", "aspect_w_over_h", "top", "left"]


def read_safetensors(path):
    """Name -> (dtype, shape, bytes)."""
    data = path.read_bytes()
    (header_len,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + header_len])
    header.pop("__metadata__", None)
    body = data[8 + header_len :]
    return {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items()}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def main(source, target):
    manifest = json.loads((source / "manifest.json").read_text())
    target.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, keys in KEPT.items():
        entry = dict(manifest["files"][name])
        entry["cases"] = [case for case in entry["cases"] if case["key"] in keys]
        missing = set(keys) - {case["key"] for case in entry["cases"]}
        if missing:
            sys.exit(f"{name} has no {sorted(missing)}")
        tensors = read_safetensors(source / name)
        wanted = dict.fromkeys([case["input"] for case in entry["cases"]] + keys)
        write_safetensors(target / name, {key: tensors[key] for key in wanted})
        files[name] = entry
    name = "dist.json"
    laws = json.loads((source / name).read_text())
    kept = {key: laws[key] for key in LAWS}
    for key, law in laws.items():
        if key.startswith(LAW_PREFIX):
            kept[key] = {field: law[field] for field in LAW_FIELDS}
    (target / name).write_text(json.dumps(kept, indent=1) + "\n")
    files[name] = dict(manifest["files"][name])
    name = "magnitudes.json"
    tables = json.loads((source / name).read_text())
    (target / name).write_text(json.dumps(tables, separators=(",", ":")) + "\n")
    files[name] = dict(manifest["files"].get(name, {}))
    for name, entry in files.items():
        data = (target / name).read_bytes()
        entry.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    meta = {key: value for key, value in manifest.items() if key not in ("files", "date")}
    (target / "manifest.json").write_text(json.dumps({**meta, "files": files}, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""Compares exported ONNX files with onnxruntime: ResNet-18 and -50, norms folded and kept, two batch and image sizes.

Needs numpy and onnxruntime. Weights are drawn here, so that nothing is downloaded and PyTorch isn't needed.
"""
import sys
import tempfile
from pathlib import Path

import numpy
import onnxruntime

from kiln_runs import ROOT, compare, kiln_logits, program, write_safetensors

TOLERANCE = 1e-4


def weights(arch, rng):
    """A network with weights, statistics and names of torchvision's, drawn so that logits are of moderate size."""
    tensors = {}
    for line in (ROOT / f"crates/kiln-model/tests/golden/keys/{arch}.txt").read_text().splitlines()[1:]:
        name, _, _, shape = line.split("\t")
        shape = [] if shape == "scalar" else [int(side) for side in shape.split("x")]
        uniform = rng.uniform(-1, 1, shape)
        if name.endswith("num_batches_tracked"):
            tensors[name] = numpy.array(0, dtype="int64")
            continue
        if len(shape) > 1:
            values = uniform * numpy.sqrt(3 / numpy.prod(shape[1:]))
        elif name.endswith("running_var"):
            values = 1 + 0.5 * uniform
        elif name.endswith(("bn3.weight", "bn2.weight")):
            values = 0.25 + 0.0625 * uniform
        elif name.endswith(".weight"):
            values = 1 + 0.25 * uniform
        else:
            values = 0.1 * uniform
        tensors[name] = values.astype("float32")
    return tensors


def main():
    rng = numpy.random.default_rng(0)
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for arch in ["resnet18", "resnet50"]:
            file = folder / f"{arch}.safetensors"
            write_safetensors(file, weights(arch, rng), {"format": "pt", "arch": arch, "num_classes": "1000"})
            for norms, options in [("folded", []), ("kept", ["--keep-norms"])]:
                program("kiln", "export", file, "--onnx", folder / "model.onnx", *options)
                session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
                for batch, height, width in [(1, 224, 224), (3, 97, 128)]:
                    images = rng.normal(size=(batch, 3, height, width)).astype("float32")
                    expected = kiln_logits(file, images, folder)
                    (found,) = session.run(["logits"], {"images": images})
                    what = f"{arch}, norms {norms}, {batch}x3x{height}x{width}"
                    fine &= compare(what, found, expected, TOLERANCE)
    print(f"onnxruntime {onnxruntime.__version__}")
    sys.exit(not fine)


if __name__ == "__main__":
    main()

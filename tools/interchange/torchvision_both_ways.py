"""Loads Kiln's weights into torchvision with strict=True, and torchvision's into Kiln, and compares logits.

torchvision_both_ways.py [FILE]: FILE is a safetensors file that `kiln train` wrote; without it Kiln trains one epoch
of a ResNet-18 on pictures it draws itself. Needs torch, torchvision, safetensors and numpy; nothing is downloaded.
"""
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import torchvision
from safetensors import safe_open
from safetensors.torch import load_file

from kiln_runs import compare, kiln_logits, program

TOLERANCE = 1e-5


def torch_logits(model, images):
    with torch.no_grad():
        return model.eval()(torch.from_numpy(images)).numpy()


def to_torchvision(file, folder):
    """Kiln's file in torchvision: every name, no name more."""
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    model = torchvision.models.get_model(metadata["arch"], num_classes=int(metadata["num_classes"]))
    model.load_state_dict(load_file(file), strict=True)
    images = numpy.random.default_rng(1).normal(size=(2, 3, 64, 96)).astype("float32")
    what = f"{metadata['arch']} from Kiln, strict"
    return compare(what, torch_logits(model, images), kiln_logits(file, images, folder), TOLERANCE)


def used_network(arch):
    """A torchvision network whose statistics have seen a few batches."""
    torch.manual_seed(0)
    model = torchvision.models.get_model(arch, num_classes=10).train()
    for _ in range(3):
        model(torch.randn(4, 3, 64, 64))
    return model


def from_torchvision(arch, folder):
    """torchvision's files of several kinds in Kiln."""
    fine = True
    model = used_network(arch)
    images = numpy.random.default_rng(2).normal(size=(2, 3, 64, 96)).astype("float32")
    state = model.state_dict()
    half = {name: value.half() if value.is_floating_point() else value for name, value in state.items()}
    as_half = used_network(arch)
    as_half.load_state_dict({name: value.float() for name, value in half.items()})
    channels_last = used_network(arch).to(memory_format=torch.channels_last)
    kinds = [
        ("zip", state, {}, model),
        ("legacy", state, {"_use_new_zipfile_serialization": False}, model),
        ("half", half, {}, as_half),
        ("channels-last", channels_last.state_dict(), {}, model),
        ("references", {"model": {f"module.{k}": v for k, v in state.items()}, "epoch": 3}, {}, model),
    ]
    for kind, contents, options, reference in kinds:
        path = folder / f"{kind}.pth"
        torch.save(contents, path, **options)
        found = kiln_logits(path, images, folder, "--arch", arch)
        fine &= compare(f"{arch} from torchvision, {kind}", found, torch_logits(reference, images), TOLERANCE)
    return fine


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if len(sys.argv) > 1:
            file = Path(sys.argv[1]).resolve()
        else:
            run = folder / "run"
            program("kiln", "train", "--device", "cpu", "--arch", "resnet18", "--epochs", 1, "--output", run)
            file = run / "checkpoints/best.safetensors"
        fine = to_torchvision(file, folder)
        for arch in ["resnet18", "resnet50", "resnext50_32x4d"]:
            fine &= from_torchvision(arch, folder)
    print(f"torch {torch.__version__}, torchvision {torchvision.__version__}")
    sys.exit(not fine)


if __name__ == "__main__":
    main()

"""Networks of torchvision and timm, with random weights."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo.torch_net import Made, OneOutput

CLASSES = 1000


def _image(size: int, batch: int = 1) -> Any:
    return torch.rand(batch, 3, size, size) * 2 - 1


def torchvision_net(*, of: str, batch: int = 1, any_batch: bool = False) -> Made:
    import torchvision

    options = {"aux_logits": False, "init_weights": False} if of == "googlenet" else {}
    network = torchvision.models.get_model(of, weights=None, **options)
    return Made(network, (_image(224, batch),), {0: {0: "batch"}} if any_batch else {})


def segmentation(*, of: str) -> Made:
    import torchvision

    network = torchvision.models.get_model(of, weights=None, weights_backbone=None)
    return Made(OneOutput(network, "out"), (_image(224),))


def detection_heads() -> Made:
    """A detector up to its boxes and scores, before any of them is chosen."""
    made = detection()
    whole = made.module.module

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.backbone, self.head = whole.backbone, whole.head

        def forward(self, image: Any) -> Any:
            found = self.head(list(self.backbone(image).values()))
            return found["bbox_regression"], found["cls_logits"]

    return Made(Heads(), (_image(320),))


def detection() -> Made:
    """A detector with all that chooses its boxes."""
    import torchvision

    network = torchvision.models.detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None)
    return Made(Boxes(network), (torch.rand(3, 320, 320),))


class Boxes(torch.nn.Module):
    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, image: Any) -> Any:
        found = self.module([image])
        found = found[-1] if isinstance(found, tuple) else found
        return found[0]["boxes"], found[0]["scores"], found[0]["labels"]


def timm_net(*, of: str, size: int = 224) -> Made:
    import timm

    return Made(timm.create_model(of, pretrained=False), (_image(size),))

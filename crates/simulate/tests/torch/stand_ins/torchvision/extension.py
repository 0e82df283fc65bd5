"""One operator of torchvision: a kernel of its own marks the boxes that stay on the device, and a mask selects them."""

import torch

LIBRARY = torch.library.Library("torchvision", "DEF")
LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def area(low, high):
    return (high - low).clamp(min=0).prod()


def overlap(one, other):
    """The share of the area of both that they have in common."""
    common = area(torch.maximum(one[:2], other[:2]), torch.minimum(one[2:], other[2:]))
    return common / (area(one[:2], one[2:]) + area(other[:2], other[2:]) - common)


def on_host(dets, scores, iou_threshold):
    left = scores.argsort(descending=True).tolist()
    kept = []
    while left:
        best, *left = left
        kept.append(best)
        left = [other for other in left if overlap(dets[best], dets[other]) <= iou_threshold]
    return torch.tensor(kept, dtype=torch.long)


def on_device(dets, scores, iou_threshold):
    marks = torch.zeros(len(dets), dtype=torch.bool, device=dets.device)
    return scores.argsort(descending=True).masked_select(marks)


LIBRARY.impl("nms", on_host, "CPU")
LIBRARY.impl("nms", on_device, "CUDA")

"""A small Mask R-CNN: a backbone, a network that proposes regions, and heads that classify, correct and outline each region.

Boxes are tensors [n, 4] of x1, y1, x2, y2 in pixels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

CHANNELS = 64
STRIDE = 4  # pixels per position of the backbone's output, in each direction
ANCHORS = (14 / 64, 20 / 64, 28 / 64)  # sides of the square anchors at each position, relative to the image
BOX_BINS, MASK_BINS = 7, 14
PROPOSALS = 24  # for each image
SAMPLES = 64  # maximum number of anchors or regions of an image that contribute to a loss


class Detections(NamedTuple):
    """The objects found in one image, best first: labels [n], scores [n], boxes [n, 4] and masks [n, height, width]."""

    labels: Tensor
    scores: Tensor
    boxes: Tensor
    masks: Tensor


class MaskRCNN(nn.Module):
    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.backbone = nn.Sequential(*_layer(3, 32, 2), *_layer(32, CHANNELS, 2), *_layer(CHANNELS, CHANNELS), *_layer(CHANNELS, CHANNELS))
        self.propose = nn.Sequential(*_layer(CHANNELS, CHANNELS), nn.Conv2d(CHANNELS, len(ANCHORS) * 5, 1))
        self.box_head = nn.Sequential(nn.Flatten(), nn.Linear(CHANNELS * BOX_BINS**2, 128), nn.ReLU(), nn.Linear(128, classes + 1 + 4))
        self.mask_head = nn.Sequential(
            *_layer(CHANNELS, CHANNELS),
            nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, 2),
            nn.ReLU(),
            nn.Conv2d(CHANNELS, classes, 1),
        )
        self.register_buffer("anchors", _anchors(size), persistent=False)

    def forward(self, images: Tensor, masks: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the losses of a batch: images [b, 3, h, w], masks [b, n, h, w], labels [b, n] (0 means no object)."""
        features, objectness, deltas = self._look(images)
        totals = []
        for index in range(len(images)):
            present = labels[index] > 0
            objects, classes = masks[index][present].float(), labels[index][present]
            boxes = _boxes(objects)
            # Include the true boxes, because early proposals miss the objects.
            proposals = torch.cat([self._proposals(objectness[index], deltas[index]), boxes])
            totals.append(
                {
                    **self._proposal_losses(objectness[index], deltas[index], boxes),
                    **self._region_losses(features[index], proposals, boxes, classes, objects),
                }
            )
        return {name: torch.stack([losses[name] for losses in totals]).mean() for name in totals[0]}

    @torch.no_grad()
    def detect(self, images: Tensor, least_score: float = 0.5) -> list[Detections]:
        """Return the objects that the model finds in each image."""
        features, objectness, deltas = self._look(images)
        return [self._detect(*arguments, least_score) for arguments in zip(features, objectness, deltas, strict=True)]

    def _look(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features, the objectness logit of each anchor [b, a], and the box offsets of each anchor [b, a, 4]."""
        features = self.backbone(images.float() / 128 - 1)
        output = self.propose(features).permute(0, 2, 3, 1).reshape(len(images), -1, 5)
        return features, output[..., 0], output[..., 1:]

    @torch.no_grad()
    def _proposals(self, objectness: Tensor, deltas: Tensor) -> Tensor:
        scores, best = objectness.topk(4 * PROPOSALS)
        boxes = decode(deltas[best], self.anchors[best]).clamp(0, self.size)
        large = (boxes[:, 2:] - boxes[:, :2]).amin(1) >= 2
        boxes, scores = boxes[large], scores[large]
        return boxes[suppress(boxes, scores, 0.7)[:PROPOSALS]]

    def _proposal_losses(self, objectness: Tensor, deltas: Tensor, boxes: Tensor) -> dict[str, Tensor]:
        overlap = iou(self.anchors, boxes)
        best, which = overlap.max(1)
        positive = best >= 0.5
        positive[overlap.argmax(0)] = True  # each object gets at least one anchor
        chosen, positives = _sample(positive, (best < 0.3) & ~positive)
        wanted = encode(boxes[which[positives]], self.anchors[positives])
        return {
            "proposal": functional.binary_cross_entropy_with_logits(objectness[chosen], positive[chosen].float()),
            "proposal_box": functional.smooth_l1_loss(deltas[positives], wanted, reduction="sum", beta=0.1) / len(chosen),
        }

    def _region_losses(self, features: Tensor, proposals: Tensor, boxes: Tensor, classes: Tensor, objects: Tensor) -> dict[str, Tensor]:
        best, which = iou(proposals, boxes).max(1)
        chosen, positives = _sample(best >= 0.5, best < 0.5)
        labels = torch.where(best >= 0.5, classes[which], 0)
        scores, deltas = self._classify(features, proposals)
        regions, matched = proposals[positives], which[positives]
        outlines = self._outline(features, regions, labels[positives])
        wanted = crop(objects[matched][:, None], regions, MASK_BINS)[:, 0] > 0.5
        corrections = functional.smooth_l1_loss(deltas[positives], encode(boxes[matched], regions), reduction="sum", beta=0.1)
        return {
            "class": functional.cross_entropy(scores[chosen], labels[chosen]),
            "box": corrections / len(chosen),
            "mask": functional.binary_cross_entropy_with_logits(outlines, wanted.float()),
        }

    def _classify(self, features: Tensor, regions: Tensor) -> tuple[Tensor, Tensor]:
        output = self.box_head(crop(features.expand(len(regions), -1, -1, -1), regions, BOX_BINS, self.size))
        return output[:, :-4], output[:, -4:]

    def _outline(self, features: Tensor, regions: Tensor, labels: Tensor) -> Tensor:
        """Return the mask logits of each region for its class [n, MASK_BINS, MASK_BINS]."""
        masks = self.mask_head(crop(features.expand(len(regions), -1, -1, -1), regions, MASK_BINS // 2, self.size))
        return masks[torch.arange(len(masks), device=masks.device), labels - 1]

    def _detect(self, features: Tensor, objectness: Tensor, deltas: Tensor, least_score: float) -> Detections:
        proposals = self._proposals(objectness, deltas)
        logits, corrections = self._classify(features, proposals)
        scores, labels = logits.softmax(1).max(1)
        found = (labels > 0) & (scores >= least_score)
        boxes = decode(corrections[found], proposals[found]).clamp(0, self.size)
        scores, labels = scores[found], labels[found]
        best = suppress(boxes, scores, 0.5)
        boxes, scores, labels = boxes[best], scores[best], labels[best]
        outlines = self._outline(features, boxes, labels).sigmoid()
        return Detections(labels, scores, boxes, paste(outlines, boxes, self.size) > 0.5)


def iou(some: Tensor, others: Tensor) -> Tensor:
    """Return the intersection over union of each box of `some` with each of `others`, [n, m]."""
    low = torch.maximum(some[:, None, :2], others[:, :2])
    high = torch.minimum(some[:, None, 2:], others[:, 2:])
    common = (high - low).clamp(min=0).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (some, others)]
    return common / (areas[0][:, None] + areas[1] - common).clamp(min=1e-6)


def encode(boxes: Tensor, references: Tensor) -> Tensor:
    """Return the offsets of boxes from their references: shifts relative to the reference size, and logarithms of size ratios."""
    size, reference_size = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1e-3), references[:, 2:] - references[:, :2]
    shift = (boxes[:, :2] + boxes[:, 2:] - references[:, :2] - references[:, 2:]) / 2
    return torch.cat([shift / reference_size, (size / reference_size).log()], 1)


def decode(deltas: Tensor, references: Tensor) -> Tensor:
    """Return the boxes for which encode() returned these offsets."""
    reference_size = references[:, 2:] - references[:, :2]
    centre = (references[:, :2] + references[:, 2:]) / 2 + deltas[:, :2] * reference_size
    half = deltas[:, 2:].clamp(max=4).exp() * reference_size / 2
    return torch.cat([centre - half, centre + half], 1)


def suppress(boxes: Tensor, scores: Tensor, most_overlap: float) -> Tensor:
    """Return the indices of the boxes that no better box overlaps by more than `most_overlap`, best first."""
    order = scores.argsort(descending=True)
    overlapping = (iou(boxes[order], boxes[order]) > most_overlap).cpu()
    keep = torch.ones(len(order), dtype=torch.bool)
    for index in range(len(order)):
        if keep[index]:
            keep[index + 1 :] &= ~overlapping[index, index + 1 :]
    return order[keep.to(order.device)]


def crop(images: Tensor, boxes: Tensor, bins: int, size: int | None = None) -> Tensor:
    """Return the part of each image [n, c, h, w] that is in its box, as bins x bins samples. The boxes are for images of size x size."""
    size = size or images.shape[-1]
    steps = (torch.arange(bins, device=boxes.device) + 0.5) / bins
    positions = boxes[:, :2, None] + (boxes[:, 2:] - boxes[:, :2])[..., None] * steps  # [n, 2, bins]
    return _look_up(images, positions[:, 0] * 2 / size - 1, positions[:, 1] * 2 / size - 1)


def paste(masks: Tensor, boxes: Tensor, size: int) -> Tensor:
    """Return masks of the whole image [n, size, size] with the masks of the boxes [n, bins, bins] pasted in."""
    pixels = torch.arange(size, device=boxes.device) + 0.5
    positions = (pixels - boxes[:, :2, None]) * 2 / (boxes[:, 2:] - boxes[:, :2]).clamp(min=1e-3)[..., None] - 1
    return _look_up(masks[:, None], positions[:, 0], positions[:, 1])[:, 0]


def _look_up(images: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Sample each image at all pairs of its x and y coordinates, which range from -1 to 1."""
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), 3)
    return functional.grid_sample(images, grid, align_corners=False)


def _sample(positive: Tensor, negative: Tensor) -> tuple[Tensor, Tensor]:
    """Return the indices of at most SAMPLES elements, at most half of them positive, and the indices of the positive elements."""
    positives = _some(positive, SAMPLES // 2)
    return torch.cat([positives, _some(negative, SAMPLES - len(positives))]), positives


def _some(mask: Tensor, most: int) -> Tensor:
    indices = mask.nonzero()[:, 0]
    return indices[torch.randperm(len(indices), device=indices.device)[:most]]


def _boxes(masks: Tensor) -> Tensor:
    """Return the smallest box around each mask."""
    sides = []
    for axis in (1, 2):  # columns, then rows
        hit = masks.amax(axis) > 0
        count = hit.shape[1]
        sides.append((hit.float().argmax(1), count - hit.flip(1).float().argmax(1)))
    return torch.stack([sides[0][0], sides[1][0], sides[0][1], sides[1][1]], 1).float()


def _anchors(size: int) -> Tensor:
    centres = (torch.arange(size // STRIDE) + 0.5) * STRIDE
    y, x, side = torch.meshgrid(centres, centres, torch.tensor(ANCHORS, dtype=torch.float32) * size, indexing="ij")
    return torch.stack([x - side / 2, y - side / 2, x + side / 2, y + side / 2], 3).reshape(-1, 4)


def _layer(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, stride, 1), nn.GroupNorm(8, outputs), nn.ReLU()]

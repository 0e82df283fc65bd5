"""Builds the engine, trains and evaluates."""

from pathlib import Path

import yaml
from segmetrics import MeanIoU

from .debug import Probe, attach
from .engine.segmentation import SegmentationEngine
from .model import Segmenter


def build(path="config.yaml"):
    config = yaml.safe_load(Path(path).read_text())
    model = Segmenter(config["model"]["width"]).cuda()
    attach(model, Probe())
    return (SegmentationEngine(model, config),)


def train_step(engine):
    return engine.train_step()


def evaluate(engine):
    metric = MeanIoU(classes=12)
    return engine.evaluate(metric)

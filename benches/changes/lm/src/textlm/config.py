"""The configuration, from a YAML file."""

from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Config:
    width: int
    layers: int
    heads: int
    vocabulary: int
    context: int
    checkpoint: bool
    batch: int
    rate: float
    tokens: int


def load(path="configs/train.yaml"):
    sections = yaml.safe_load(Path(path).read_text())
    return Config(**{key: value for section in sections.values() for key, value in section.items()})

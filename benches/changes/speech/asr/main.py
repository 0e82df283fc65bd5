"""Trains a recognizer."""

from pathlib import Path

import yaml
from trainkit import Trainer

from .callbacks import Activations, Progress
from .module import Recognizer


def main(path="conf/asr.yaml"):
    config = yaml.safe_load(Path(path).read_text())
    module = Recognizer(config).cuda()
    watcher = Activations(module.encoder)
    trainer = Trainer(config["epochs"], config["steps"], callbacks=[Progress()])
    trainer.fit(module)
    print(len(watcher.seen), "layers")


if __name__ == "__main__":
    main()

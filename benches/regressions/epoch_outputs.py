"""Outputs of steps that a Lightning module keeps until the end of the epoch, with their graphs."""

import sys

import lightning
import torch
from torch import nn


class Tower(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))
        self.outputs = []

    def training_step(self, batch, _):
        output = self.model(batch[0])
        self.outputs.append(output if sys.argv[1] == "after" else output.detach().mean().cpu())
        return output.square().mean()

    def on_train_epoch_end(self):
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(640, 256)), batch_size=64)
trainer = lightning.Trainer(
    accelerator="gpu",
    devices=1,
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Tower(), data)

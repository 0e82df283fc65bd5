from torch import nn


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Segmenter(nn.Module):
    def __init__(self, channels=32, classes=8):
        super().__init__()
        self.down = block(3, channels)
        self.pool = nn.MaxPool2d(2)
        self.middle = block(channels, 2 * channels)
        self.up = nn.Upsample(scale_factor=2)
        self.out = nn.Conv2d(3 * channels, classes, 1)

    def forward(self, image):
        import torch

        fine = self.down(image)
        coarse = self.middle(self.pool(fine))
        return self.out(torch.cat([fine, self.up(coarse)], dim=1))

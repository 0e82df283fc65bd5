import torch

from losses import segmentation_loss
from model import Segmenter

BATCH = 4
SIZE = 192
CHANNELS = 32
RATE = 1e-2


def build():
    torch.manual_seed(1)
    model = Segmenter(CHANNELS).cuda()
    return model, torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)


def batch():
    images = torch.randn(BATCH, 3, SIZE, SIZE, device="cuda")
    masks = torch.randint(8, (BATCH, SIZE, SIZE), device="cuda")
    return images, masks


def train_step(model, optimizer):
    model.train()
    images, masks = batch()
    loss = segmentation_loss(model(images), masks)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()

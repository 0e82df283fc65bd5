"""What all engines have in common."""

import torch


class Engine:
    def __init__(self, model, config):
        self.model = model
        self.config = config
        self.optimizer = torch.optim.SGD(model.parameters(), lr=config["training"]["rate"], momentum=0.9)
        self.steps = 0

    def batch(self):
        size, count = self.config["data"]["size"], self.config["data"]["batch"]
        images = torch.rand(count, 3, size, size, device="cuda")
        return images, torch.randint(12, (count, size, size), device="cuda")

    def loss(self, images, masks):
        raise NotImplementedError

    def backward(self, loss):
        loss.backward()

    def train_step(self):
        self.model.train()
        images, masks = self.batch()
        loss = self.loss(images, masks)
        self.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        return loss.detach()

    def predict(self, images):
        return self.model(images)

    @torch.no_grad()
    def evaluate(self, metric, batches=4):
        self.model.eval()
        for _ in range(batches):
            images, masks = self.batch()
            metric.update(self.predict(images), masks)
        return metric.compute()

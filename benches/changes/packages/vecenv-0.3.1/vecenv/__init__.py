"""Many environments at once, on the GPU."""

import torch


class VectorEnv:
    actions = 6

    def __init__(self, count):
        self.count = count

    def reset(self):
        return torch.rand(self.count, 4, 84, 84, device="cuda")

    def step(self, action):
        observation = torch.rand(self.count, 4, 84, 84, device="cuda")
        return observation, torch.rand(self.count, device="cuda")

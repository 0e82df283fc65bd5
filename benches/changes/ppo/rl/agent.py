"""The agent: a convolutional encoder, an actor and a critic."""

from torch import nn


class Agent(nn.Module):
    def __init__(self, actions):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 512),
            nn.ReLU(inplace=True),
        )
        self.actor = nn.Linear(512, actions)
        self.critic = nn.Linear(512, 1)

    def act(self, observation):
        hidden = self.encoder(observation)
        logits = self.actor(hidden)
        return logits.argmax(-1), logits.log_softmax(-1), self.critic(hidden).squeeze(-1)

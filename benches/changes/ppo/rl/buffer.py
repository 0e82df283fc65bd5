"""What happened in a rollout."""

import torch


class Buffer:
    def __init__(self):
        self.clear()

    def clear(self):
        self.observations, self.actions, self.values, self.rewards = [], [], [], []

    def add(self, observation, action, value, reward):
        self.observations.append(observation)
        self.actions.append(action)
        self.values.append(value)
        self.rewards.append(reward)

    @torch.no_grad()
    def advantages(self, discount=0.99, smoothing=0.95):
        values = torch.stack(self.values)
        rewards = torch.stack(self.rewards)
        advantage = torch.zeros_like(rewards)
        last = 0
        for step in reversed(range(len(rewards) - 1)):
            delta = rewards[step] + discount * values[step + 1] - values[step]
            last = delta + discount * smoothing * last
            advantage[step] = last
        return advantage.flatten()

    def minibatches(self, count):
        observations = torch.cat(self.observations)
        actions = torch.cat(self.actions)
        advantages = self.advantages()
        for part in torch.arange(len(actions), device="cuda").chunk(count):
            yield observations[part], actions[part], advantages[part]

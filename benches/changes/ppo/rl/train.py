"""PPO: rollouts, and updates of the agent."""

from pathlib import Path

import torch
import torch.nn.functional as F
import yaml
from vecenv import VectorEnv

from .agent import Agent
from .buffer import Buffer


def rollout(agent, env, buffer, steps):
    observation = env.reset()
    for _ in range(steps):
        with torch.no_grad():
            action, _, value = agent.act(observation)
        following, reward = env.step(action)
        buffer.add(observation, action, value, reward)
        observation = following


def update(agent, optimizer, buffer, config):
    losses = []
    for _ in range(config["epochs"]):
        for observations, actions, advantages in buffer.minibatches(config["minibatches"]):
            _, logp, value = agent.act(observations)
            chosen = logp.gather(1, actions[:, None]).squeeze(1)
            loss = -(chosen * advantages).mean() + F.mse_loss(value, advantages)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def main(path="configs/ppo.yaml"):
    config = yaml.safe_load(Path(path).read_text())
    env = VectorEnv(config["envs"])
    agent = Agent(env.actions).cuda()
    optimizer = torch.optim.Adam(agent.parameters(), lr=config["rate"])
    buffer = Buffer()
    report = []
    for _ in range(config["updates"]):
        rollout(agent, env, buffer, config["steps"])
        report.append(update(agent, optimizer, buffer, config))
        buffer.clear()
    print(len(report), "updates")


if __name__ == "__main__":
    main()

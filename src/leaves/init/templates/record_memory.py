"""Three steps of training, which ptmem gate records: fill in a model of this repository, its inputs and its loss."""

import torch
from PACKAGE import REPLACE_ME

model = REPLACE_ME().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    inputs = torch.randn(REPLACE_ME, device="cuda")
    loss = model(inputs).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

"""The contrastive loss."""

import torch
import torch.nn.functional as F


def contrastive(queries, documents, negatives, temperature=0.05):
    positive = (queries * documents).sum(1, keepdim=True)
    scores = torch.cat([positive, queries @ negatives.T], dim=1)
    scores = scores.div_(temperature)
    first = torch.zeros(len(scores), dtype=torch.long, device="cuda")
    return F.cross_entropy(scores, first), scores

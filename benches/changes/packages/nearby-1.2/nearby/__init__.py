"""The nearest neighbors of vectors."""

import torch


def best(queries, documents, depth, chunk=1024):
    """The best documents for each query, some queries at a time."""
    values, places = [], []
    for part in queries.split(chunk):
        top = (part @ documents.T).topk(depth)
        values.append(top.values)
        places.append(top.indices)
    return torch.return_types.topk((torch.cat(values), torch.cat(places)))

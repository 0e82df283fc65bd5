"""Tools to look into a model."""


class Probe:
    """Notes the shapes of what the layers put out."""

    def __init__(self):
        self.shapes = []

    def __call__(self, module, inputs, output):
        self.shapes.append(tuple(output.shape))


def attach(model, probe):
    for module in model.children():
        module.register_forward_hook(probe)

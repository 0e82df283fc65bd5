"""What happens beside the training."""


class Progress:
    def __init__(self):
        self.count = 0

    def on_step(self, module, output):
        self.count += 1


class Activations:
    """Watches the layers of an encoder."""

    def __init__(self, encoder):
        self.seen = {}
        for number, layer in enumerate(encoder.layers):
            layer.register_forward_hook(self.watch(number))

    def watch(self, number):
        def hook(module, inputs, output):
            self.seen[number] = output.shape

        return hook

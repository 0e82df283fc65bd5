"""Random numbers of a simulated GPU: those that the host draws from the same seed."""

import ptmem_simulate_host as host

# Generators whose states are kept, by the place in their sequence: a checkpoint goes back to one.
MOST_STATES = 256


class Stream:
    """The host's generator for one of a device."""

    def __init__(self, torch):
        self.generator = torch.Generator("cpu")
        self.place = None
        self.states = {}

    def at(self, place):
        """The generator where the device's is at this place: a seed, and how far it has drawn."""
        if self.place is None or place[0] != self.place[0] or place[1] <= self.place[1]:
            state = self.states.get(place)
            if state is not None:
                self.generator.set_state(state)
            elif self.place is None or place[1] == 0:
                self.generator.manual_seed(place[0])
        self.place = place
        if len(self.states) < MOST_STATES:
            self.states[place] = self.generator.get_state()
        return self.generator


class Draws:
    """The generators of a process."""

    def __init__(self, torch):
        self.torch = torch
        self.streams = {}

    def stream(self, generator):
        """The host's generator for one of a device, at the same place."""
        torch = self.torch
        if generator is None:
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
        stream, _ = self.streams.setdefault(id(generator), (Stream(torch), generator))
        return stream.at(tuple(generator.get_state().view(torch.int64)[:2].tolist()))

    def run(self, call, arguments, named):
        """Runs an operator on the host, with the random numbers of its device."""
        torch, operator = self.torch, call.operator
        compute = host.OPERATORS.get(operator.base, operator.overload)
        if not operator.draws:
            return compute(*arguments, **named)
        generator = self.stream(call.value("generator"))
        if operator.takes_generator:
            given = operator.bound(arguments, named)
            given["generator"] = generator
            return operator.overload(**given)
        before = torch.get_rng_state()
        torch.set_rng_state(generator.get_state())
        try:
            return compute(*arguments, **named)
        finally:
            generator.set_state(torch.get_rng_state())
            torch.set_rng_state(before)

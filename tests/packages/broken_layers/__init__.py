"""Layers for the tests of ``convs2s adl verify``: each has one fault, except ``whole``."""

import torch
from torch import nn

from convs2s.models.adl import PAST, POSITION, SENTENCE, Cost, Reach, register_layer
from convs2s.nn.linear import Linear


class Mean(nn.Module):
    """An exponential moving average of the positions so far."""

    offset = 0.0

    def __init__(self, spec):
        super().__init__()

    def load(self, state):
        return None if state is None else state.rows.get("mean")

    def save(self, state, mean):
        if state is not None:
            state.rows["mean"] = mean

    def forward(self, x, context):
        state = context.layer_state(self)
        mean = self.load(state)
        mean = torch.zeros_like(x[:, 0]) if mean is None else mean
        means = []
        for position in range(x.size(1)):
            new = (mean + x[:, position]) / 2
            mean = self.keep(mean, new, context.padding_mask, position)
            means.append(mean)
        self.save(state, mean)
        return torch.stack(means, dim=1)

    def keep(self, old, new, padding_mask, position):
        return (
            new if padding_mask is None else torch.where(padding_mask[:, position, None], old, new)
        )


register_layer("whole", "no fault", reach=PAST, cost=Cost(), parameters=0)(Mean)


@register_layer("forgetful", "keeps no state", reach=PAST)
class Forgetful(Mean):
    def save(self, state, mean):
        pass


@register_layer("drifting", "keeps a state whose small digits are lost", reach=PAST)
class Drifting(Mean):
    def load(self, state):
        mean = super().load(state)
        return None if mean is None else mean - 1e5

    def save(self, state, mean):
        super().save(state, mean + 1e5)


@register_layer("single", "takes a single position in each step", reach=PAST)
class Single(Mean):
    def forward(self, x, context):
        if context.layer_state(self) is None:
            return super().forward(x, context)
        return super().forward(x[:, -1:], context).expand_as(x)


@register_layer("unordered", "keeps a state that is not reordered", reach=PAST)
class Unordered(Mean):
    def load(self, state):
        return None if state is None else state.constants.get("mean")

    def save(self, state, mean):
        if state is not None:
            state.constants["mean"] = mean


@register_layer("leaky", "subtracts the mean over all positions, padding too", reach=SENTENCE)
class Leaky(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, x, context):
        return x - x.mean(dim=1, keepdim=True)


@register_layer("careless", "changes its state at padding", reach=PAST)
class Careless(Mean):
    def keep(self, old, new, padding_mask, position):
        return new


@register_layer("mixing", "subtracts the mean over the batch", reach=POSITION)
class Mixing(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, x, context):
        return x - x.mean(dim=0, keepdim=True)


@register_layer("foreseeing", "reads the next position, and says that it does not", reach=PAST)
class Foreseeing(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, x, context):
        return x + torch.cat([x[:, 1:], x[:, -1:]], dim=1)


register_layer("narrow", "says that it reads one earlier position", reach=Reach(1, 0))(Mean)


@register_layer("light", "states too few parameters", reach=POSITION, parameters=3)
class Light(nn.Linear):
    def __init__(self, spec):
        super().__init__(spec.input_width, spec.width)

    def forward(self, x, context):
        return super().forward(x)


register_layer("cheap", "states too few multiply-adds", reach=POSITION, cost=Cost(7))(Light)


@register_layer("flat", "has a wrong gradient", reach=POSITION)
class Flat(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(spec.width))

    def forward(self, x, context):
        return x * self.weight * self.weight.detach()


@register_layer("coarse", "adds a large number and subtracts it", reach=POSITION)
class Coarse(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, x, context):
        return (x + 1000.0) - 1000.0


@register_layer("rounded", "has a weight beside which all others are rounded off", reach=POSITION)
class Rounded(Linear):
    def __init__(self, spec):
        super().__init__(spec.input_width, spec.width)
        with torch.no_grad():
            self.weight[:, 0] = 1000.0

    def forward(self, x, context):
        return super().forward(x) - 1000.0 * x[..., :1]


@register_layer("wide", "returns more channels than it declares", reach=POSITION)
class Wide(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, x, context):
        return torch.cat([x, x], dim=-1)


@register_layer("raising", "cannot take a step", reach=PAST)
class Raising(Mean):
    def save(self, state, mean):
        if state is not None:
            raise IndexError("there is no seventh position")


@register_layer("unbuilt", "cannot be built", reach=POSITION, parameters=0)
class Unbuilt(nn.Module):
    def __init__(self, spec):
        raise KeyError("depth")

"""A plain implementation of the 2018 code for pervasive attention, with its names of weights.

Written from its behavior: one sentence at a time, without padding, every step from the start.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

PAD, UNK, EOS, BOS = range(4)


def params(**changes):
    """The options of a small network; a change such as ``network__gated=1`` has two keys."""
    options = {
        "model": "convs2s2D",
        "encoder": {"type": "lookup", "input_dim": 6, "input_dropout": 0.2, "encode_length": 0},
        "decoder": {
            "type": "lookup",
            "input_dim": 8,
            "input_dropout": 0.2,
            "prediction_dropout": 0.2,
        }
        | {"tie_target_weights": 1, "copy_source_weights": 0, "encode_position": 0},
        "network": {"type": "densenet", "num_layers": [3], "growth_rate": 4, "kernel": 3}
        | {"bias": 0, "gated": 0, "half_inputs": 1, "use_st": 0, "conv_dropout": 0.2, "bn_size": 2},
        "aggregator": {"mode": "max"},
        "data": {"src": "de", "trg": "en", "dir": "data"},
    }
    for name, value in changes.items():
        part, key = name.split("__")
        options[part][key] = value
    return options


class Layer(nn.Module):
    def __init__(self, channels, net, old_names):
        super().__init__()
        g, h, k, bias = (
            net["growth_rate"],
            net["growth_rate"] * net["bn_size"],
            net["kernel"],
            bool(net["bias"]),
        )
        self.gated = net["gated"]
        parts = [
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, h, 1, bias=bias),
            nn.BatchNorm2d(h),
            nn.Conv2d(h, g * (2 if self.gated else 1), k, padding=k // 2, bias=bias),
        ]
        parts[3].register_buffer("mask", torch.ones_like(parts[3].weight))
        parts[3].mask[:, :, k // 2 + 1 :] = 0
        if net.get("weight_norm"):
            parts[1], parts[3] = (nn.utils.weight_norm(parts[i], dim=0) for i in (1, 3))
        for name, part in zip(("norm1", "conv1", "norm2", "conv2"), parts):
            self.add_module(name, part)
        self.seq = None
        if not old_names:
            del self.norm1, self.conv1, self.norm2, self.conv2
            relu = nn.ReLU
            self.seq = nn.Sequential(parts[0], relu(), parts[1], parts[2], relu(), parts[3])

    def forward(self, x):
        norm1, conv1, norm2, conv2 = (
            (self.seq[i] for i in (0, 2, 3, 5))
            if self.seq is not None
            else (self.norm1, self.conv1, self.norm2, self.conv2)
        )
        hidden = conv1(norm1(x).relu())
        hidden = norm2(hidden).relu()
        weight = conv2.weight
        if hasattr(conv2, "weight_v"):
            v = conv2.weight_v
            weight = conv2.weight_g * v / v.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        new = F.conv2d(hidden, weight * conv2.mask, conv2.bias, padding=conv2.padding)
        if self.gated:
            gate, value = new.chunk(2, dim=1)
            new = value * gate.sigmoid()
        return torch.cat([x, new], dim=1)


class Aggregator(nn.Module):
    def __init__(self, channels, out, options):
        super().__init__()
        self.mode, self.options = options["mode"], options
        if self.mode == "max-attention":
            self.project = nn.Module()
            self.project.attend = nn.Linear(channels, 1)
            channels *= 1 if options["first_aggregator"] == "skip" else 2
        self.out = channels
        if out is not None:
            self.lin, self.out = nn.Linear(channels, out), out

    def forward(self, x):
        length = x.size(3)
        if self.mode in ("max", "truncated-max"):
            pooled = x.amax(dim=3)
        elif self.mode == "truncated-mean":
            pooled = x.mean(dim=3) * math.sqrt(length)
        else:
            cells = x.permute(0, 2, 3, 1)
            weights = self.project.attend(cells).softmax(dim=2)
            pooled = (weights * cells).mean(dim=2).transpose(1, 2)
            if self.options.get("scale_ctx", 1):
                pooled = math.sqrt(length) * pooled
            if self.options["first_aggregator"] != "skip":
                pooled = torch.cat([x.amax(dim=3), pooled], dim=1)
        pooled = pooled.transpose(1, 2)
        return self.lin(pooled) if hasattr(self, "lin") else pooled


class Network2018(nn.Module):
    """The network of some options; its state dictionary is what the code saves.

    Args:
        options: see ``params``.
        sizes: numbers of source and target tokens.
        old_names: names of the first versions.
    """

    def __init__(self, options, sizes, old_names=True):
        super().__init__()
        net = options["network"]
        source, target = options["encoder"]["input_dim"], options["decoder"]["input_dim"]
        self.src_embedding, self.trg_embedding, self.net = nn.Module(), nn.Module(), nn.Module()
        self.src_embedding.label_embedding = nn.Embedding(sizes[0], source)
        self.trg_embedding.label_embedding = nn.Embedding(sizes[1], target)
        if options["decoder"]["copy_source_weights"]:
            self.trg_embedding.label_embedding.weight = self.src_embedding.label_embedding.weight
        channels, features = source + target, nn.Sequential()
        if net["half_inputs"]:
            name = "initial_transiton" if old_names else "initial_transition"
            features.add_module(name, nn.Conv2d(channels, channels // 2, 1))
            channels //= 2
        block = nn.Sequential()
        for i in range(net["num_layers"][0]):
            block.add_module(f"denselayer{i + 1}", Layer(channels, net, old_names))
            channels += net["growth_rate"]
        features.add_module("denseblock1", block)
        transition = nn.Sequential()
        if not net["use_st"]:
            transition.add_module("norm", nn.BatchNorm2d(channels))
        transition.add_module("relu", nn.ReLU())
        bias = bool(net["use_st"] and net["bias"])
        transition.add_module("conv", nn.Conv2d(channels, channels // 2, 1, bias=bias))
        features.add_module("transition1", transition)
        channels //= 2
        features.add_module("norm_last" if old_names else "norm_final", nn.BatchNorm2d(channels))
        features.add_module("relu_last", nn.ReLU())
        self.net.features = features
        tied = options["decoder"]["tie_target_weights"]
        self.aggregator = Aggregator(channels, target if tied else None, options["aggregator"])
        self.prediction = nn.Linear(self.aggregator.out, sizes[1])
        if tied:
            self.prediction.weight = self.trg_embedding.label_embedding.weight

    def forward(self, source, target):
        """Log probabilities T x V.

        Args:
            source: S tokens, without the end of the sentence.
            target: T tokens, BOS first.
        """
        x = self.src_embedding.label_embedding(source).expand(len(target), -1, -1)
        y = self.trg_embedding.label_embedding(target).unsqueeze(1).expand(-1, len(source), -1)
        grid = torch.cat([x, y], dim=2).permute(2, 0, 1).unsqueeze(0)
        features = self.aggregator(self.net.features(grid))
        return self.prediction(features).log_softmax(dim=-1)[0]

    @torch.no_grad()
    def greedy(self, source, longest=20):
        """The most probable token at each step, not EOS at the first, as in fairseq."""
        tokens = [BOS]
        while len(tokens) <= longest:
            scores = self(source, torch.tensor(tokens))[-1]
            scores[[PAD, EOS] if len(tokens) == 1 else PAD] = -math.inf
            tokens.append(int(scores.argmax()))
            if tokens[-1] == EOS:
                break
        return [token for token in tokens[1:] if token != EOS]


def random_network(options, sizes, old_names=True, seed=1):
    """A network with random weights and running averages, in evaluation mode.

    Running averages are gathered in training mode, so that all layers that read a channel have the
    same ones, as after a training.
    """
    torch.manual_seed(seed)
    model = Network2018(options, sizes, old_names)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
        # A target never holds these.
        model.prediction.bias[[PAD, UNK, BOS]] -= 10
        for _ in range(20):
            source = torch.randint(4, sizes[0], (7,))
            model(source, torch.cat([torch.tensor([BOS]), torch.randint(4, sizes[1], (6,))]))
    return model.eval()

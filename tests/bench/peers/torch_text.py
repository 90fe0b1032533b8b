#!/usr/bin/env python3
"""The PyTorch twin of a text recipe: single-path one-shot training in eager mode.

usage: torch_text.py RECIPE [--threads N] [--steps N] [--device cpu|cuda]
                     [--layout auto|contiguous] [--products float32|tf32|bf16]
                     [--notes NOTES]

Reads the recipe that np-train reads and trains the same space: tokens and learned or rotary
positions, blocks of attention, feed-forward, gated and convolution candidates, each behind its norm
and beside its input, the last norm and an untied output; causal, with PyTorch's own fused
attention. Candidates have weights of their own, entangled or not. The text is bytes, windows of it
begin anywhere. torch_peer.py has the rest.
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_peer

ACTS = {'gelu': nn.GELU, 'relu': nn.ReLU, 'swish': nn.SiLU}
NORMS = {'layer': nn.LayerNorm, 'rms': nn.RMSNorm}


def norm_of(width, spec):
    return NORMS[spec.get('norm', 'layer')](width, eps=1e-5)


def linear(spec, read, made):
    return nn.Linear(read, made, bias=spec.get('bias', True))


def hidden_of(width, spec):
    return spec.get('hidden') or int(width * spec.get('ratio', 4))


class Rotary(nn.Module):
    """Turns pairs of channels half a head apart; the angles are made once."""

    def __init__(self, length, head):
        super().__init__()
        rates = 10000.0 ** (-torch.arange(0, head, 2) / head)
        angles = torch.outer(torch.arange(length), rates).repeat(1, 2)
        self.register_buffer('cos', angles.cos(), persistent=False)
        self.register_buffer('sin', angles.sin(), persistent=False)

    def forward(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat((-high, low), -1) * self.sin


class Attention(nn.Module):
    def __init__(self, width, spec):
        super().__init__()
        self.heads, hidden = spec['heads'], spec.get('hidden', width)
        self.pairs = spec.get('kv_heads', self.heads)
        head = hidden // self.heads
        self.qkv = linear(spec, width, hidden + 2 * self.pairs * head)
        self.out = linear(spec, hidden, width)
        turns = spec.get('positions') == 'rotary'
        self.turn = Rotary(spec['length'], head) if turns else nn.Identity()

    def forward(self, x):
        each = self.qkv(x).unflatten(2, (self.heads + 2 * self.pairs, -1)).transpose(1, 2)
        q, k, v = each.split([self.heads, self.pairs, self.pairs], 1)
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, is_causal=True,
                                           enable_gqa=self.pairs < self.heads)
        return self.out(y.transpose(1, 2).flatten(2))


def feed_forward(width, spec):
    hidden = hidden_of(width, spec)
    return nn.Sequential(linear(spec, width, hidden), ACTS[spec.get('act', 'gelu')](),
                         linear(spec, hidden, width))


class GatedFeedForward(nn.Module):
    def __init__(self, width, spec):
        super().__init__()
        hidden = hidden_of(width, spec)
        self.scale, self.up = linear(spec, width, hidden), linear(spec, width, hidden)
        self.down, self.act = linear(spec, hidden, width), ACTS[spec.get('act', 'swish')]()

    def forward(self, x):
        return self.down(self.act(self.scale(x)) * self.up(x))


def gated(width, _):
    return nn.Sequential(nn.Linear(width, 2 * width), nn.GLU())


class Convolution(nn.Module):
    """Along the text, over what came before; separable: depthwise, then 1."""

    def __init__(self, width, spec):
        super().__init__()
        self.before, separable = spec['kernel'] - 1, spec['op'] == 'sepconv1d'
        layers = [nn.Conv1d(width, width, spec['kernel'], groups=width if separable else 1)]
        layers += [nn.Conv1d(width, width, 1)] if separable else []
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(F.pad(x.transpose(1, 2), (self.before, 0))).transpose(1, 2)


class Light(nn.Module):
    """A lightweight convolution: normalised weights that the channels of a head share."""

    def __init__(self, width, spec):
        super().__init__()
        self.of_each = width // spec['heads']
        self.kernel = nn.Parameter(torch.randn(spec['heads'], spec['kernel']) * 0.1)

    def forward(self, x):
        x = x.transpose(1, 2)
        weights = F.softmax(self.kernel, 1).repeat_interleave(self.of_each, 0).unsqueeze(1)
        padded = F.pad(x, (self.kernel.shape[1] - 1, 0))
        return F.conv1d(padded, weights.to(x.dtype), groups=x.shape[1]).transpose(1, 2)


OPS = {'mha': Attention, 'ffn': feed_forward, 'gated_ffn': GatedFeedForward, 'glu': gated,
       'conv1d': Convolution, 'sepconv1d': Convolution, 'lightconv': Light}


class Branch(nn.Module):
    """A candidate: its operator behind its norm, and beside its input."""

    def __init__(self, width, spec):
        super().__init__()
        self.norm, self.op = norm_of(width, spec), OPS[spec['op']](width, spec)

    def forward(self, x):
        return x + self.op(self.norm(x))


def candidate(width, length, spec):
    return nn.Identity() if spec['op'] == 'identity' else Branch(width, spec | {'length': length})


def blocks_of(items, depth=torch_peer.NO_DEPTH):
    """The candidates of the choice blocks of a list of them and of lists that are repeated as wholes,
    and of which depth they are; what may be passed over has an identity more."""
    for item in items:
        depths, which = item.get('depth', [item.get('repeat', 1)]), object()
        for i in range(depths[-1]):
            own = (which, sum(n <= i for n in depths), len(depths)) if 'depth' in item else depth
            if 'blocks' in item:
                yield from blocks_of(item['blocks'], own)
            else:
                yield item['choices'] + [{'op': 'identity'}] * (own[1] > 0), own


class Supernet(nn.Module):
    def __init__(self, space):
        super().__init__()
        tokens, width = space['input'], space['width']
        self.token = nn.Embedding(tokens['vocab'], width)
        learned = space.get('stem', {}).get('positions', 'learned') == 'learned'
        self.position = nn.Embedding(tokens['length'], width) if learned else None
        blocks = list(blocks_of(space['blocks']))
        self.depths = [depth for _, depth in blocks]
        self.blocks = nn.ModuleList(
            nn.ModuleList(candidate(width, tokens['length'], spec) for spec in choices)
            for choices, _ in blocks)
        self.norm = norm_of(width, space.get('head', {}))
        self.out = nn.Linear(width, tokens['vocab'], bias=False)

    def forward(self, x, choice):
        x = self.token(x)
        if self.position is not None:
            x = x + self.position.weight
        for block, i in zip(self.blocks, choice):
            x = block[i](x)
        return self.out(self.norm(x)).flatten(0, 1)


class Batches:
    def __init__(self, recipe, directory, generator):
        text = b''
        for name in recipe['data']['train']['files']:
            with open(os.path.join(directory, name), 'rb') as file:
                text += file.read()
        self.text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        self.length, self.generator = recipe['space']['input']['length'], generator

    def next(self, count, _):
        last = len(self.text) - self.length
        at = torch.randint(0, last, (count,), generator=self.generator).tolist()
        windows = torch.stack([self.text[i:i + self.length + 1] for i in at])
        return windows[:, :-1], windows[:, 1:].flatten()


if __name__ == '__main__':
    torch_peer.main(Supernet, Batches, ['contiguous'], __doc__)

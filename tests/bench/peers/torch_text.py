#!/usr/bin/env python3
"""The PyTorch twin of a text recipe: single-path one-shot training in eager mode.

usage: torch_text.py RECIPE [--threads N] [--steps N] [--device cpu|cuda]
                     [--layout auto|contiguous] [--products float32|tf32|bf16]
                     [--notes NOTES]

Reads the recipe that np-train reads and trains the same space: tokens and learned or rotary
positions, blocks of attention, feed-forward, gated and convolution candidates, each behind its norm
and beside its input, the last norm and an untied output; with PyTorch's own fused attention.
Candidates have weights of their own, entangled or not. The text is bytes, windows of it begin
anywhere; or pairs of a source, which the blocks before an embedding read, and a target, whose
padding may be masked.
torch_peer.py has the rest.
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

    def __init__(self, length, head, base):
        super().__init__()
        rates = float(base) ** (-torch.arange(0, head, 2) / head)
        angles = torch.outer(torch.arange(length), rates).repeat(1, 2)
        self.register_buffer('cos', angles.cos(), persistent=False)
        self.register_buffer('sin', angles.sin(), persistent=False)

    def forward(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat((-high, low), -1) * self.sin


class Relative(nn.Module):
    """What is added to scores: learned, of each head, for how far a key lies from a query."""

    def __init__(self, heads, grid, causal):
        super().__init__()
        height, width = grid
        y, x = torch.arange(height * width) // width, torch.arange(height * width) % width
        down, along = y - y[:, None] + height - 1, x - x[:, None] + width - 1
        self.table = nn.Parameter(torch.zeros(heads, width if causal else
                                              (2 * height - 1) * (2 * width - 1)))
        places = down * (2 * width - 1) + along
        unseen = places >= width if causal else torch.zeros_like(places, dtype=torch.bool)
        self.register_buffer('places', places.masked_fill(unseen, 0), persistent=False)
        self.register_buffer('unseen', unseen, persistent=False)

    def forward(self):
        return self.table[:, self.places].masked_fill(self.unseen, -torch.inf)


def real(tokens):
    """Keys that are not filled, of which every sample has one: a mask of scores."""
    keys = tokens != 0
    keys[:, 0] = True
    return keys[:, None, None]


class Attention(nn.Module):
    """Of a sequence, or an image's positions, to itself."""

    def __init__(self, width, spec):
        super().__init__()
        self.heads, hidden = spec['heads'], spec.get('hidden', width)
        self.pairs = spec.get('kv_heads', self.heads)
        head = hidden // self.heads
        self.qkv = linear(spec, width, hidden + 2 * self.pairs * head)
        positions, self.causal = spec.get('positions'), spec['mask'] == 'causal'
        self.turn, self.relative = nn.Identity(), None
        if positions == 'rotary':
            self.turn = Rotary(spec['grid'][1], head, spec.get('base', 10000))
        if positions == 'relative':
            self.relative = Relative(self.heads, spec['grid'], self.causal)
        self.out = linear(spec, hidden, width)

    def forward(self, x, keys=None):
        each = self.qkv(x).unflatten(2, (self.heads + 2 * self.pairs, -1)).transpose(1, 2)
        q, k, v = each.split([self.heads, self.pairs, self.pairs], 1)
        added = self.relative and self.relative()
        if keys is not None and not self.causal:
            added = keys if added is None else added.masked_fill(~keys, -torch.inf)
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, added,
                                           is_causal=self.causal and added is None,
                                           enable_gqa=self.pairs < self.heads)
        return self.out(y.transpose(1, 2).flatten(2))


class CrossAttention(nn.Module):
    """Of a sequence to another, behind a norm of its own."""

    def __init__(self, width, spec):
        super().__init__()
        self.heads, hidden = spec['heads'], spec.get('hidden', width)
        self.q, self.norm = linear(spec, width, hidden), norm_of(width, spec)
        self.kv, self.out = linear(spec, width, 2 * hidden), linear(spec, hidden, width)

    def forward(self, x, memory, keys=None):
        q = self.q(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
        both = self.kv(self.norm(memory)).unflatten(2, (2 * self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, *both.chunk(2, 1), keys)
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
        op = CrossAttention if 'memory' in spec else OPS[spec['op']]
        self.norm, self.op = norm_of(width, spec), op(width, spec)
        self.attends = spec['op'] == 'mha'

    def forward(self, x, *memory, keys=None):
        given = {'keys': keys} if self.attends else {}
        return x + self.op(self.norm(x), *memory, **given)


class Identity(nn.Module):
    def forward(self, x, **_):
        return x


def candidate(width, grid, spec, mask):
    """One of a block of so many positions, rows and in a row; attention that says nothing of a mask
    has this one."""
    if spec['op'] == 'identity':
        return Identity()
    return Branch(width, {'mask': mask} | spec | {'grid': grid})


class Embedding(nn.Module):
    def __init__(self, vocab, width, length, spec):
        super().__init__()
        learned = spec.get('positions', 'learned') == 'learned'
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(length, width) if learned else None

    def forward(self, tokens):
        x = self.token(tokens)
        return x if self.position is None else x + self.position.weight


TARGET = object()  # what an embedding among the blocks reads
NO_TARGET = -100  # what PyTorch's loss leaves out


class Supernet(nn.Module):
    def __init__(self, space):
        super().__init__()
        tokens, width = space['input'], space['width']
        vocab, self.source = tokens['vocab'], tokens.get('source_length', 0)
        self.masked = tokens.get('padding') == 'masked'
        length = self.source or tokens['length']
        self.stem = Embedding(vocab, width, length, space.get('stem', {}))
        self.blocks, self.depths, self.names = nn.ModuleList(), [], []
        self.memories = []  # of each block the name of what it reads beside x; TARGET: that, not x
        for item, _, depth in torch_peer.repeats_of(space['blocks']):
            choices = torch_peer.choices_of(item, depth)
            if choices[0]['op'] == 'embedding':
                length = tokens['length']
                block = [Embedding(vocab, width, length, choices[0])]
            else:
                block = [candidate(width, (1, length), spec, 'causal') for spec in choices]
            self.blocks.append(nn.ModuleList(block))
            self.depths.append(depth)
            self.names.append(item.get('name'))
            self.memories.append(TARGET if choices[0]['op'] == 'embedding' else
                                 choices[0].get('memory'))
        self.norm = norm_of(width, space.get('head', {}))
        self.out = nn.Linear(width, vocab, bias=False)

    def forward(self, x, choice):
        x, target = x.tensor_split([self.source], 1) if self.source else (x, None)
        keys = real(x) if self.masked else None
        made, x = {}, self.stem(x)
        for block, name, memory, i in zip(self.blocks, self.names, self.memories, choice):
            if memory is TARGET:
                x, keys = block[i](target), real(target) if self.masked else None
            elif memory:
                x = block[i](x, made[memory][0], keys=made[memory][1])
            else:
                x = block[i](x, keys=keys)
            if name:
                made[name] = x, keys
        return self.out(self.norm(x)).flatten(0, 1)


def read_files(recipe, directory):
    text = b''
    for name in recipe['data']['train']['files']:
        with open(os.path.join(directory, name), 'rb') as file:
            text += file.read()
    return text


def as_tokens(text):
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


class Windows:
    """Of a text, and the same one token later."""

    def __init__(self, recipe, directory, generator):
        self.text = as_tokens(read_files(recipe, directory))
        self.length, self.generator = recipe['space']['input']['length'], generator

    def part(self, count):
        return (count * self.length + 1.5) / len(self.text)

    def first(self, count):
        return self.windows(range(0, count * self.length, self.length))

    def windows(self, places):
        windows = torch.stack([self.text[i:i + self.length + 1] for i in places])
        return windows[:, :-1], windows[:, 1:].flatten()

    def next(self, count, _):
        last = len(self.text) - self.length
        return self.windows(torch.randint(0, last, (count,), generator=self.generator).tolist())


def filled(row, length):
    return row + [0] * (length - len(row))


class Pairs:
    """Of a source and a target's input, side by side, and the target."""

    def __init__(self, recipe, directory, generator):
        tokens, self.generator = recipe['space']['input'], generator
        self.masked = tokens.get('padding') == 'masked'
        numbers = recipe['data']['train']['kind'] == 'token_pairs'
        rows, source, length = [], tokens['source_length'], tokens['length']
        for line in read_files(recipe, directory).splitlines():
            first, second = ([int(word) for word in side.split()] if numbers else list(side)
                             for side in line.split(b'\t'))
            rows.append(filled(first[:source], source) +
                        filled([1] + second[:length - 1], length + 1))
        self.rows, self.source = torch.tensor(rows), source

    def part(self, count):
        return (count + 0.5) / len(self.rows)

    def first(self, count):
        return self.pairs(slice(count))

    def pairs(self, which):
        rows = self.rows[which]
        targets = rows[:, self.source + 1:]
        if self.masked:  # behind the end, which the input's begin stands for
            targets = targets.masked_fill(rows[:, self.source:-1] == 0, NO_TARGET)
        return rows[:, :-1], targets.flatten()

    def next(self, count, _):
        return self.pairs(torch.randint(0, len(self.rows), (count,), generator=self.generator))


def batches(recipe, *rest):
    pairs = recipe['space']['input'].get('kind') == 'pairs'
    return (Pairs if pairs else Windows)(recipe, *rest)


TWIN = (Supernet, batches, ['contiguous'])

if __name__ == '__main__':
    torch_peer.main(*TWIN, __doc__)

#!/usr/bin/env python3
"""The PyTorch twin of a vision recipe: single-path one-shot training in eager mode.

usage: torch_vision.py RECIPE [--threads N] [--steps N] [--device cpu|cuda]
                       [--layout auto|contiguous|channels_last] [--products float32|tf32|bf16]
                       [--notes NOTES]

Reads the recipe that np-train reads and trains the same space: conv2d stem, candidates of
convolutions and pools in a row, in graphs and in cells, classifier; the same data, augmentation,
batch, members, loss and optimizer. Batch norms take the statistics of their batch and keep none;
activations are in place where nothing else reads what they do. Candidates have weights of their
own, entangled or not; zero adds nothing to a sum, and a cell's nodes are put together at once.
torch_peer.py has the rest.
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_peer

ACTS = {'relu': nn.ReLU, 'relu6': nn.ReLU6, 'hswish': nn.Hardswish, 'swish': nn.SiLU}
FIT = {'op': 'relu_conv_bn', 'kernel': 1}  # what reads the inputs of a cell of two


def conv(inputs, outputs, kernel, stride=1, groups=1, dilation=1, bias=False):
    """Padded so that a stride of 1 keeps the size."""
    padding = dilation * (kernel - 1) // 2
    return nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, groups, bias)


def norm(channels):
    return nn.BatchNorm2d(channels, track_running_stats=False)


def conv_bn(inputs, outputs, kernel, stride=1, act=None, **rest):
    layers = [conv(inputs, outputs, kernel, stride, **rest), norm(outputs)]
    return layers + [ACTS[act](inplace=True)] if act else layers


def conv2d(inputs, outputs, stride, spec):
    kernel, act = spec.get('kernel', 3), spec.get('act', 'relu')
    rest = {'groups': spec.get('groups', 1), 'dilation': spec.get('dilation', 1)}
    if spec.get('norm', 'batch') == 'batch':
        act = act.replace('none', '')
        return nn.Sequential(*conv_bn(inputs, outputs, kernel, stride, act, **rest))
    bare = conv(inputs, outputs, kernel, stride, bias=True, **rest)
    return bare if act == 'none' else nn.Sequential(bare, ACTS[act](inplace=True))


def relu_conv_bn(inputs, outputs, stride, spec):
    return nn.Sequential(nn.ReLU(), *conv_bn(inputs, outputs, spec.get('kernel', 3), stride,
                                             dilation=spec.get('dilation', 1)))


def sepconv(inputs, outputs, stride, spec):
    kernel = spec.get('kernel', 3)
    return nn.Sequential(nn.ReLU(), conv(inputs, inputs, kernel, stride, inputs),
                         *conv_bn(inputs, inputs, 1, act='relu'),
                         conv(inputs, inputs, kernel, 1, inputs), *conv_bn(inputs, outputs, 1))


def dilconv(inputs, outputs, stride, spec):
    depth = conv(inputs, inputs, spec.get('kernel', 3), stride, inputs, spec.get('dilation', 2))
    return nn.Sequential(nn.ReLU(), depth, *conv_bn(inputs, outputs, 1))


def pool(inputs, _, stride, spec):
    kernel = spec.get('kernel', 3)
    made = (nn.MaxPool2d(kernel, stride, (kernel - 1) // 2) if spec['op'] == 'max_pool' else
            nn.AvgPool2d(kernel, stride, (kernel - 1) // 2, count_include_pad=False))
    return nn.Sequential(made, norm(inputs)) if spec.get('norm', 'none') == 'batch' else made


def identity(inputs, outputs, stride, _):
    if stride == 2:
        return FactorizedReduce(inputs, outputs)
    return nn.Identity() if inputs == outputs else relu_conv_bn(inputs, outputs, 1, FIT)


class FactorizedReduce(nn.Module):
    """Half of the channels from the even positions, half from the odd ones."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.even = nn.Conv2d(inputs, outputs // 2, 1, 2, bias=False)
        self.odd = nn.Conv2d(inputs, outputs - outputs // 2, 1, 2, bias=False)
        self.norm = norm(outputs)

    def forward(self, x):
        x = F.relu(x)
        return self.norm(torch.cat((self.even(x), self.odd(x[:, :, 1:, 1:])), 1))


class Zero(nn.Module):
    """Of a sum: nothing."""

    def forward(self, *_):
        return None


class Concat(nn.Module):
    def forward(self, *parts):
        return torch.cat(parts, 1)


class Shuffle(nn.Module):
    """ShuffleNetV2's units; xception: three times depthwise and 1 x 1."""

    def __init__(self, inputs, outputs, stride, spec):
        super().__init__()
        kernel, half = spec.get('kernel', 3), outputs // 2
        if stride == 1 and inputs != outputs:
            raise SystemExit('torch_vision: a shuffle block of stride 1 changes its channels')
        left, self.pass_by = None, stride == 1
        if stride == 2:
            left = nn.Sequential(*conv_bn(inputs, inputs, kernel, 2, groups=inputs),
                                 *conv_bn(inputs, half, 1, act='relu'))
        inputs = half if stride == 1 else inputs
        if spec.get('xception', False):
            right = []
            for i in range(3):
                right += conv_bn(inputs, inputs, kernel, stride if i == 0 else 1, groups=inputs)
                right += conv_bn(inputs, half, 1, act='relu')
                inputs = half
        else:
            right = (conv_bn(inputs, half, 1, act='relu') +
                     conv_bn(half, half, kernel, stride, groups=half) +
                     conv_bn(half, half, 1, act='relu'))
        self.left, self.right = left, nn.Sequential(*right)

    def forward(self, x):
        left, right = x.chunk(2, 1) if self.pass_by else (x, x)
        left = left if self.pass_by else self.left(left)
        return F.channel_shuffle(torch.cat((left, self.right(right)), 1), 2)


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction):
        super().__init__()
        squeezed = max(channels // reduction, 1)
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        squeezed = F.relu(self.down(F.adaptive_avg_pool2d(x, 1)), True)
        return x * F.hardsigmoid(self.up(squeezed), True)


class MBConv(nn.Module):
    def __init__(self, inputs, outputs, stride, spec):
        super().__init__()
        kernel, act = spec.get('kernel', 3), spec.get('act', 'relu6')
        hidden = spec.get('hidden') or inputs * spec.get('expand', 6)
        layers = conv_bn(inputs, hidden, 1, act=act) if hidden != inputs else []
        layers += conv_bn(hidden, hidden, kernel, stride, act, groups=hidden)
        if spec.get('se', 0):
            layers.append(SqueezeExcite(hidden, spec['se']))
        layers += conv_bn(hidden, outputs, 1)
        self.branch = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.branch(x) if self.residual else self.branch(x)


class Residual(nn.Module):
    """ResNet's blocks: two convolutions, or one between two that change the channels."""

    def __init__(self, inputs, outputs, stride, spec):
        super().__init__()
        kernel, act = spec.get('kernel', 3), spec.get('act', 'relu')
        bottleneck = spec['op'] == 'bottleneck'
        hidden = spec.get('hidden') or (max(outputs // 4, 1) if bottleneck else outputs)
        if bottleneck:
            layers = (conv_bn(inputs, hidden, 1, act=act) +
                      conv_bn(hidden, hidden, kernel, stride, act, groups=spec.get('groups', 1)))
            layers += [SqueezeExcite(hidden, spec['se'])] if spec.get('se') else []
            layers += conv_bn(hidden, outputs, 1)
        else:
            layers = (conv_bn(inputs, hidden, kernel, stride, act) +
                      conv_bn(hidden, outputs, kernel))
        same = stride == 1 and inputs == outputs
        self.shortcut = (nn.Identity() if same else
                         nn.Sequential(*conv_bn(inputs, outputs, 1, stride)))
        self.branch, self.act = nn.Sequential(*layers), ACTS[act](inplace=True)

    def forward(self, x):
        y = self.branch(x)
        y += self.shortcut(x)
        return self.act(y)


OPS = {'conv2d': conv2d, 'relu_conv_bn': relu_conv_bn, 'sepconv': sepconv, 'dilconv': dilconv,
       'max_pool': pool, 'avg_pool': pool, 'identity': identity, 'zero': lambda *_: Zero(),
       'shuffle': Shuffle, 'mbconv': MBConv, 'resnet_basic': Residual, 'bottleneck': Residual}


class Supernet(nn.Module):
    """Each block reads values and adds to one, which may be new; the stem makes value 0."""

    def __init__(self, space):
        super().__init__()
        image, head, width = space['input'], space.get('head', {}), space['width']
        self.stem = conv2d(image['channels'], width, space.get('stem', {}).get('stride', 1),
                           space.get('stem', {}))
        self.blocks, self.depths, self.ties = nn.ModuleList(), [], []
        self.reads, self.makes, self.besides = [], [], []
        self.channels, self.scales = [width], [1]
        self.result = self.lay_out(space)
        width = self.channels[self.result]
        features, act = head.get('features', 0), head.get('act', 'relu')
        if features:
            self.features = nn.Sequential(*conv_bn(width, features, 1, act=act))
        elif head.get('norm', 'none') == 'batch':
            self.features = nn.Sequential(norm(width), ACTS[act](inplace=True))
        else:
            self.features = nn.Identity()
        self.out = nn.Linear(features or width, image['classes'])

    def lay_out(self, space):
        """All blocks; the value that the last one makes."""
        named, tied, before, made = {}, {}, 0, 0
        for item, first, depth in torch_peer.repeats_of(space['blocks']):
            stride, begin = item.get('stride', 1) if first else 1, len(self.blocks)
            source = named[item['from']] if first and 'from' in item else made
            if item.get('inputs', 1) == 2:
                result = self.cell_of_two(item, before, made, stride)
            elif 'cell' in item:
                result = self.edges(item, [source], stride)[-1]
            else:
                out = item.get('out', self.channels[source])
                result = self.block(torch_peer.choices_of(item, depth), source, out, stride)
                if 'add' in item:
                    self.besides[-1] = named[item['add']]
            before, made = made, result
            named[item.get('name')] = made
            begin_tied = tied.setdefault(item.get('tie', begin), begin)
            count = len(self.blocks) - begin
            self.ties += range(begin_tied, begin_tied + count)
            self.depths += [depth] * count
        return made

    def block(self, choices, source, out, stride=1, target=None):
        """A block of one source; the value that it makes."""
        inputs = self.channels[source]
        if target is None:
            target = self.value(out, self.scales[source] * stride)
        return self.add([OPS[c['op']](inputs, out, stride, c) for c in choices], [source], target)

    def add(self, candidates, reads, makes):
        self.blocks.append(nn.ModuleList(candidates))
        self.reads.append(reads)
        self.makes.append(makes)
        self.besides.append(None)
        return makes

    def value(self, channels, scale):
        self.channels.append(channels)
        self.scales.append(scale)
        return len(self.channels) - 1

    def edges(self, item, nodes, stride):
        """All nodes of a cell whose inputs are these."""
        inputs = len(nodes)
        for j in range(inputs, item['cell']):
            target = None
            for i in range(j):
                out = item.get('out', self.channels[nodes[i]])
                target = self.block(item['choices'], nodes[i], out, stride if i < inputs else 1,
                                    target)
            nodes.append(target)
        return nodes

    def cell_of_two(self, item, before, made, stride):
        halved = self.scales[before] != self.scales[made]
        first = self.block([{'op': 'identity'} if halved else FIT], before, item['out'], halved + 1)
        second = self.block([FIT], made, item['out'])
        nodes = self.edges(item, [first, second], stride)[2:]
        if len(nodes) == 1:
            return nodes[0]
        result = self.value(len(nodes) * item['out'], self.scales[nodes[0]])
        for _ in nodes[2:]:  # the recipe puts them together one by one
            self.add([Zero()], nodes[:1], result)
        return self.add([Concat()], nodes, result)

    def forward(self, x, choice):
        values = {0: self.stem(x)}

        def value(k):
            return values[k] if k in values else self.zeros(values[0], k)
        for block, reads, makes, beside, i in zip(self.blocks, self.reads, self.makes, self.besides,
                                                  choice):
            made = block[i](*(value(k) for k in reads))
            other = values.get(makes) if beside is None else value(beside)
            if other is not None:
                made = other if made is None else other + made
            if made is not None:
                values[makes] = made
        return self.out(self.features(value(self.result)).mean((2, 3)))

    def zeros(self, stem, k):
        """A node to which nothing was added."""
        height, width = ((n + self.scales[k] - 1) // self.scales[k] for n in stem.shape[2:])
        return stem.new_zeros(stem.shape[0], self.channels[k], height, width)


def read_file(name):
    with open(name, 'rb') as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)


def read_idx(name):
    """What an IDX file of unsigned bytes or 16-bit numbers has, in its shape."""
    file = read_file(name)
    wide, dims = {0x08: 1, 0x0b: 2}[int(file[2])], int(file[3])
    shape = [int.from_bytes(file[4 + 4 * i:8 + 4 * i].tolist(), 'big') for i in range(dims)]
    data = file[4 + 4 * dims:]
    return (data if wide == 1 else data.view(-1, 2).flip(1).contiguous().view(torch.int16)).view(
        shape)


class Batches:
    """Images and labels, normalised, padded, cropped and flipped; not resized, nor in other colours."""

    def __init__(self, recipe, directory, generator):
        spec, image = recipe['data']['train'], recipe['space']['input']
        names = [os.path.join(directory, name) for name in spec['files']]
        self.size = [image['height'], image['width']]
        shape = (-1, *spec.get('stored', self.size), image['channels'])
        if spec['kind'] == 'cifar10':
            records = torch.cat([read_file(name) for name in names]).view(-1, 1 + 3 * 32 * 32)
            self.images, labels = records[:, 1:].view(-1, 3, 32, 32), records[:, 0]
        else:
            images = torch.cat([read_idx(name) for name in names[0::2]]).view(shape)
            self.images = images.permute(0, 3, 1, 2).contiguous()
            labels = torch.cat([read_idx(name) for name in names[1::2]])
        self.labels, self.generator = labels.long(), generator
        self.mean = torch.tensor(spec.get('mean', [0.0] * shape[3])).view(1, -1, 1, 1)
        self.std = torch.tensor(spec.get('std', [1.0] * shape[3])).view(1, -1, 1, 1)
        self.crop, self.flip = spec.get('crop', 0), spec.get('flip', False)
        self.middle = [(stored - n) // 2 for stored, n in zip(self.images.shape[2:], self.size)]

    def part(self, count):
        return (count + 0.5) / len(self.labels)

    def first(self, count):
        (top, left), (height, width) = self.middle, self.size
        x = self.normalised(slice(count))[:, :, top:top + height, left:left + width]
        return x.contiguous(), self.labels[:count]

    def normalised(self, which):
        return (self.images[which].float() / 255 - self.mean) / self.std

    def next(self, count, layout):
        def draw(bound):
            return torch.randint(0, bound, (count,), generator=self.generator).tolist()
        which = draw(len(self.labels))
        height, width = self.size
        x = F.pad(self.normalised(which), [self.crop] * 4)
        moves = ([first + by for by in draw(2 * self.crop + 1)] for first in self.middle)
        x = [one[:, top:top + height, left:left + width] for one, top, left in zip(x, *moves)]
        if self.flip:
            x = [one.flip(2) if flip else one for one, flip in zip(x, draw(2))]
        return torch.stack(x).contiguous(memory_format=layout), self.labels[which]


TWIN = (Supernet, Batches, ['contiguous', 'channels_last'])

if __name__ == '__main__':
    torch_peer.main(*TWIN, __doc__)

#!/usr/bin/env python3
"""The PyTorch twin of a vision recipe: single-path one-shot training in eager mode.

usage: torch_vision.py RECIPE [--threads N] [--steps N] [--device cpu|cuda]
                       [--layout auto|contiguous|channels_last] [--products float32|tf32|bf16]
                       [--notes NOTES]

Reads the recipe that np-train reads and trains the same space: conv2d stem, shuffle and mbconv
candidates, classifier; the same data, augmentation, batch, members, loss and optimizer. Batch norms
take the statistics of their batch and keep none; activations are in place. torch_peer.py has the
rest.
"""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_peer

ACTS = {'relu': nn.ReLU, 'relu6': nn.ReLU6, 'hswish': nn.Hardswish}


def conv_bn(inputs, outputs, kernel, stride=1, act=None, groups=1):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(outputs, track_running_stats=False)]
    if act:
        layers.append(ACTS[act](inplace=True))
    return layers


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
        return x * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)), True)), True)


class MBConv(nn.Module):
    def __init__(self, inputs, outputs, stride, spec):
        super().__init__()
        kernel, expand = spec.get('kernel', 3), spec.get('expand', 6)
        act, hidden = spec.get('act', 'relu6'), inputs * expand
        layers = conv_bn(inputs, hidden, 1, act=act) if expand > 1 else []
        layers += conv_bn(hidden, hidden, kernel, stride, act, groups=hidden)
        if spec.get('se', 0):
            layers.append(SqueezeExcite(hidden, spec['se']))
        layers += conv_bn(hidden, outputs, 1)
        self.branch = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.branch(x) if self.residual else self.branch(x)


class Supernet(nn.Module):
    def __init__(self, space):
        super().__init__()
        image, stem, head = space['input'], space.get('stem', {}), space.get('head', {})
        ops = {'shuffle': Shuffle, 'mbconv': MBConv}
        width = space['width']
        self.stem = nn.Sequential(*conv_bn(image['channels'], width, stem.get('kernel', 3),
                                           stem.get('stride', 1), stem.get('act', 'relu')))
        self.blocks = nn.ModuleList()
        for block in space['blocks']:
            for i in range(block.get('repeat', 1)):
                out, stride = block.get('out', width), block.get('stride', 1) if i == 0 else 1
                self.blocks.append(nn.ModuleList(ops[c['op']](width, out, stride, c)
                                                 for c in block['choices']))
                width = out
        features, act = head.get('features', 0), head.get('act', 'relu')
        if features:
            self.features = nn.Sequential(*conv_bn(width, features, 1, act=act))
        else:
            self.features = nn.Sequential(nn.BatchNorm2d(width, track_running_stats=False),
                                          ACTS[act](inplace=True))
        self.out = nn.Linear(features or width, image['classes'])

    def forward(self, x, choice):
        x = self.stem(x)
        for block, i in zip(self.blocks, choice):
            x = block[i](x)
        return self.out(self.features(x).mean((2, 3)))


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
    """Images and labels, normalised, padded, cropped and flipped."""

    def __init__(self, recipe, directory, generator):
        spec, image = recipe['data']['train'], recipe['space']['input']
        names = [os.path.join(directory, name) for name in spec['files']]
        shape = (-1, image['height'], image['width'], image['channels'])
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

    def next(self, count, layout):
        def draw(bound):
            return torch.randint(0, bound, (count,), generator=self.generator).tolist()
        which = draw(len(self.labels))
        height, width = self.images.shape[2:]
        x = F.pad((self.images[which].float() / 255 - self.mean) / self.std, [self.crop] * 4)
        places = zip(x, draw(2 * self.crop + 1), draw(2 * self.crop + 1))
        x = [one[:, top:top + height, left:left + width] for one, top, left in places]
        if self.flip:
            x = [one.flip(2) if flip else one for one, flip in zip(x, draw(2))]
        return torch.stack(x).contiguous(memory_format=layout), self.labels[which]


if __name__ == '__main__':
    torch_peer.main(Supernet, Batches, ['contiguous', 'channels_last'], __doc__)

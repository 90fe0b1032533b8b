#!/usr/bin/env python3
"""The PyTorch twin of a vision recipe: single-path one-shot training in eager mode.

usage: torch_vision.py RECIPE [--threads N] [--steps N] [--device cpu|cuda]
                       [--layout auto|contiguous|channels_last] [--products float32|tf32|bf16]

Reads the recipe that np-train reads and trains the same space: conv2d stem, shuffle and mbconv
candidates, classifier; the same data, augmentation, batch, members, loss and optimizer, weight decay
on matrices alone, and updates of the active paths alone. Batch norms take the statistics of their batch
and keep none. What a careful user would switch on is on: oneDNN, the faster memory layout of the two
(auto measures both), the fused optimizer, activations in place, gradients set to None. A step is
forward, backward and update; making its batch is not counted. Prints the median step and images/s.
With --products, those of the forward and backward passes may round what they multiply: to TF32, or,
by autocast, to bf16. Needs torch >= 2.4 and PyYAML.
"""
import argparse
import os
import statistics
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import yaml

ACTS = {'relu': nn.ReLU, 'relu6': nn.ReLU6, 'hswish': nn.Hardswish}
WARM_STEPS, TRIAL_STEPS = 5, 10


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


def read_files(spec, directory):
    for name in spec['files']:
        with open(os.path.join(directory, name), 'rb') as file:
            yield torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)


class Batches:
    """Images and labels, normalised, padded, cropped and flipped."""

    def __init__(self, spec, image, directory, generator):
        files = list(read_files(spec, directory))
        shape = (-1, image['channels'], image['height'], image['width'])
        if spec['kind'] == 'cifar10':
            records = torch.cat(files).view(-1, 1 + 3 * 32 * 32)
            self.images, labels = records[:, 1:].view(shape), records[:, 0]
        else:
            self.images = torch.cat([file[16:] for file in files[0::2]]).view(shape)
            labels = torch.cat([file[8:] for file in files[1::2]])
        self.labels, self.generator = labels.long(), generator
        self.mean = torch.tensor(spec.get('mean', [0.0] * shape[1])).view(1, -1, 1, 1)
        self.std = torch.tensor(spec.get('std', [1.0] * shape[1])).view(1, -1, 1, 1)
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


def make_optimizer(net, spec):
    decay = spec.get('weight_decay', 0.01 if spec.get('kind', 'adamw') == 'adamw' else 0.0)
    groups = [{'params': [p for p in net.parameters() if p.dim() > 1], 'weight_decay': decay},
              {'params': [p for p in net.parameters() if p.dim() <= 1], 'weight_decay': 0.0}]
    if spec.get('kind', 'adamw') == 'sgd':
        optimizer = torch.optim.SGD(groups, lr=spec.get('lr', 0.01), fused=True,
                                    momentum=spec.get('momentum', 0.9),
                                    nesterov=spec.get('nesterov', False))
        for p in net.parameters():  # the fused update wants all of them or none
            optimizer.state[p]['momentum_buffer'] = torch.zeros_like(p)
        return optimizer
    return torch.optim.AdamW(groups, lr=spec.get('lr', 1e-3), fused=True)


class Trainer:
    def __init__(self, recipe, directory, layout, device, half):
        seed, train = recipe.get('seed', 0), recipe['train']
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.layout, self.batch, self.device = layout, train.get('batch', 16), device
        self.half = half
        self.net = Supernet(recipe['space']).to(device, memory_format=layout)
        self.candidates = [len(block) for block in self.net.blocks]
        self.optimizer = make_optimizer(self.net, train.get('optimizer', {}))
        self.smoothing = train.get('loss', {}).get('label_smoothing', 0.0)
        self.batches = Batches(recipe['data']['train'], recipe['space']['input'], directory,
                               self.generator)
        sampler = recipe.get('sampler', {})
        self.fair = sampler.get('kind', 'uniform') == 'fair'
        self.members = max(self.candidates) if self.fair else sampler.get('members', 1)

    def draw_subnets(self):
        """A list of choices for each member of the step."""
        if self.fair:
            orders = [torch.randperm(n, generator=self.generator) for n in self.candidates]
            return [[int(order[m % len(order)]) for order in orders] for m in range(self.members)]
        return [[int(torch.randint(0, n, (), generator=self.generator)) for n in self.candidates]
                for _ in range(self.members)]

    def wait(self):
        if self.device == 'cuda':
            torch.cuda.synchronize()

    def step(self):
        """One step: its seconds and its loss."""
        subnets = self.draw_subnets()
        batches = [[t.to(self.device) for t in self.batches.next(self.batch, self.layout)]
                   for _ in subnets]
        self.wait()
        begin = time.perf_counter()
        total = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for choice, (x, y) in zip(subnets, batches):
            with torch.autocast(self.device, torch.bfloat16, enabled=self.half):
                loss = F.cross_entropy(self.net(x, choice), y, label_smoothing=self.smoothing)
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        self.wait()
        return time.perf_counter() - begin, total / len(subnets)

    def run(self, steps):
        for _ in range(WARM_STEPS):
            self.step()
        done = [self.step() for _ in range(steps)]
        return statistics.median(seconds for seconds, _ in done), [loss for _, loss in done]


LAYOUTS = {'contiguous': torch.contiguous_format, 'channels_last': torch.channels_last}


def main():
    parser = argparse.ArgumentParser(usage=' '.join(__doc__.split('\n\n')[1].split())[7:])
    parser.add_argument('recipe')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--steps', type=int, default=40)
    parser.add_argument('--device', choices=['cpu', 'cuda'], default='cpu')
    parser.add_argument('--layout', choices=['auto', *LAYOUTS], default='auto')
    parser.add_argument('--products', choices=['float32', 'tf32', 'bf16'], default='float32')
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tf32, half = args.products == 'tf32', args.products == 'bf16'
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    with open(args.recipe, encoding='utf-8') as file:
        recipe = yaml.safe_load(file)
    directory = os.path.dirname(os.path.abspath(args.recipe))
    layout = args.layout
    if layout == 'auto':
        trial = {name: Trainer(recipe, directory, LAYOUTS[name], args.device, half)
                 .run(TRIAL_STEPS)[0] for name in LAYOUTS}
        layout = min(trial, key=trial.get)
    trainer = Trainer(recipe, directory, LAYOUTS[layout], args.device, half)
    seconds, losses = trainer.run(args.steps)
    print(f'torch {torch.__version__} threads {args.threads} {layout} step {seconds * 1e3:.1f} ms '
          f'images/s {trainer.batch * trainer.members / seconds:.0f} first loss {losses[0]:.3f} '
          f'last loss {statistics.mean(losses[-5:]):.3f}')


if __name__ == '__main__':
    main()

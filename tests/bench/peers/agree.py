#!/usr/bin/env python3
"""Whether a PyTorch twin is what np-train trains: the loss of a mini-batch, and all its gradients.

usage: agree.py RECIPE --twin text|vision|vit [--subnets N]

Trains drawn subnets of the recipe for a few steps, then for one of plain SGD on the same
mini-batch: what it takes from the weights, by np-export, is the gradient. The twin gets the weights
from before it. Prints a line for each subnet: how far off those of the twin in double precision are
the loss, the norm of the gradients that metrics.jsonl has, and the gradients, all together and of
the tensor where it is most; and how far those of the twin in single precision are. Exit 1 if
naspipe's are FARTHER times as far off, and not near: relus whose input is 0 but for rounding may do
either, which is thousandths of a gradient or more, and hides as much. np-train and np-export are
those in PATH; the data must be there.
"""
import argparse
import copy
import importlib
import json
import os
import struct
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import yaml

import torch_peer

STEPS, RATE, LAST_RATE = 3, 0.05, 64.0  # by the last one weights change by more than they round
FARTHER, LOSS_NEAR, NEAR = 3, 1e-6, 1e-2
PRINTED = 1e-5  # digits of a norm
SMALL = 1e-3  # of the gradient: a tensor's that is as good as 0, as in front of a batch norm


def one_batch(recipe, directory, batches):
    """The recipe with a mini-batch of data, which each step has in some order, and no sampler."""
    recipe = copy.deepcopy(recipe)
    spec, train = recipe['data']['train'], recipe['train']
    recipe['data'] = {'train': {
        **{key: value for key, value in spec.items() if key in ('kind', 'mean', 'std')},
        'files': [os.path.join(directory, name) for name in spec['files']],
        'part': [0.0, batches.part(train.get('batch', 16))], 'order': 'shuffled'}}
    recipe['train'] = {key: value for key, value in train.items()
                       if key in ('batch', 'grain', 'loss')}
    recipe['train']['clip'] = {'kind': 'layer', 'limit': 1e30}  # for metrics.jsonl to have norms
    recipe.pop('sampler', None)
    return recipe


def trained(recipe, choice, run, steps, rate, *options):
    """The weights that a subnet has in the end, in its order, its last loss and gradient's norm."""
    recipe['train'].update(steps=steps, optimizer={'kind': 'sgd', 'lr': rate, 'momentum': 0.0})
    line = ' '.join(map(str, choice)) + '\n'
    for name, text in (('recipe.yaml', yaml.safe_dump(recipe, width=1 << 20)), ('one', line),
                       ('all', line * steps)):
        with open(name, 'w', encoding='utf-8') as file:
            file.write(text)
    subprocess.run(['np-train', 'recipe.yaml', '--run', run, '--subnets', 'all', '-q', *options],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['np-export', 'recipe.yaml', '--run', run, '--subnet', 'one', '-q', '-o',
                    'weights'], check=True)
    with open(os.path.join(run, 'ledger.tsv'), encoding='ascii') as file:
        loss = float.fromhex(file.read().splitlines()[-1].split('\t')[3])
    with open(os.path.join(run, 'metrics.jsonl'), encoding='ascii') as file:
        norm = json.loads(file.read().splitlines()[-1])['grad_norm']
    return read_tensors('weights'), loss, norm


def read_tensors(name):
    """Of a safetensors file, but for statistics of batch norms, which no loss here has."""
    with open(name, 'rb') as file:
        data = file.read()
    begin = 8 + struct.unpack('<Q', data[:8])[0]
    tensors = {}
    for key, spec in json.loads(data[8:begin]).items():
        if key != '__metadata__' and '.running_' not in key:
            first, end = (begin + offset for offset in spec['data_offsets'])
            tensors[key] = torch.frombuffer(bytearray(data[first:end]),
                                            dtype=torch.float32).view(spec['shape'])
    return tensors


def parameters_of(net, choice):
    """Those of a subnet, from the stem to the head, as np-export has them."""
    path = [block[i] for block, i in zip(net.blocks, choice)]
    stem = ('stem.', 'patches.', 'position.')
    named = [(name, p) for name, p in net.named_parameters() if not name.startswith('blocks.')]
    return ([p for name, p in named if name.startswith(stem)] +
            [p for candidate in path for p in candidate.parameters()] +
            [p for name, p in named if not name.startswith(stem)])


def put(tensors, parameters):
    """Shapes are the same, but for dimensions of 1: a 1 x 1 convolution is a linear layer."""
    for (name, value), p in zip(tensors.items(), parameters, strict=True):
        if [n for n in value.shape if n > 1] != [n for n in p.shape if n > 1]:
            raise SystemExit(f'agree: {name} is {tuple(value.shape)}, the twin\'s {tuple(p.shape)}')
        p.data.copy_(value.view_as(p))


def gradients(net, choice, tensors, batch, smoothing):
    """The loss and the gradients of a twin with these weights, as one vector for each."""
    parameters = parameters_of(net, choice)
    put(tensors, parameters)
    x, y = batch
    loss = F.cross_entropy(net(x.to(parameters[0].dtype) if x.is_floating_point() else x, choice),
                           y, label_smoothing=smoothing)
    return loss.item(), [g.double().flatten() for g in torch.autograd.grad(loss, parameters)]


def distance(ours, theirs):
    """Of gradients: of all, of the farthest tensor, and its number; relative."""
    every = torch.cat(theirs).norm()
    each = [((a - b).norm() / max(b.norm(), SMALL * every)).item() for a, b in zip(ours, theirs)]
    worst = max(range(len(each)), key=each.__getitem__)
    return ((torch.cat(ours) - torch.cat(theirs)).norm() / every).item(), each[worst], worst


def agrees(trainer, recipe, directory, choice):
    """Prints the line of a subnet; whether it is as it should be."""
    recipe, smoothing = one_batch(recipe, directory, trainer.batches), trainer.smoothing
    batch = trainer.batches.first(trainer.batch)
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        before, _, _ = trained(recipe, choice, 'a', STEPS, RATE)
        after, loss, norm = trained(recipe, choice, 'b', 1, LAST_RATE, '--init', 'a')
        os.chdir('/')
    ours = [((before[name].double() - after[name].double()) / LAST_RATE).flatten()
            for name in before]
    exact, right = gradients(trainer.net.double(), choice, before, batch, smoothing)
    single, rounded = gradients(trainer.net.float(), choice, before, batch, smoothing)
    far, farthest, which = distance(ours, right)
    far_single, farthest_single, _ = distance(rounded, right)
    length = torch.cat(right).norm().item()
    norm_off = abs(norm - length) / length
    print(f'loss {loss:.7f}, {abs(loss - exact):.1e} off, torch {abs(single - exact):.1e}; '
          f'norm {norm:.6g}, {norm_off:.1e} off; '
          f'{len(ours)} gradients {far:.1e} off, torch {far_single:.1e}; '
          f'{list(before)[which]} {farthest:.1e}, torch {farthest_single:.1e}')
    return (abs(loss - exact) <= max(FARTHER * abs(single - exact), LOSS_NEAR * abs(exact)) and
            norm_off <= max(far, PRINTED) and far <= max(FARTHER * far_single, NEAR) and
            farthest <= max(FARTHER * farthest_single, NEAR))


def main():
    parser = argparse.ArgumentParser(usage=' '.join(__doc__.split('\n\n')[1].split())[7:])
    parser.add_argument('recipe')
    parser.add_argument('--twin', choices=['text', 'vision', 'vit'], required=True)
    parser.add_argument('--subnets', type=int, default=3)
    args = parser.parse_args()
    with open(args.recipe, encoding='utf-8') as file:
        recipe = yaml.safe_load(file)
    directory = os.path.dirname(os.path.abspath(args.recipe))
    supernet, batches, _ = importlib.import_module('torch_' + args.twin).TWIN
    trainer = torch_peer.Trainer(supernet, batches, recipe, directory, torch.contiguous_format,
                                 'cpu', False)
    done = [agrees(trainer, recipe, directory, trainer.draw_subnet()) for _ in range(args.subnets)]
    sys.exit(not all(done))


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""The PyTorch twin of a recipe of transformers on images: one-shot training in eager mode.

usage: torch_vit.py RECIPE [--threads N] [--steps N] [--device cpu|cuda]
                    [--layout auto|contiguous] [--products float32|tf32|bf16]
                    [--notes NOTES]

Reads the recipe that np-train reads and trains the same space: patches with learned positions, the
candidates of torch_text.py without a mask, a norm, the mean over positions and a linear layer; on
the images of torch_vision.py. torch_peer.py has the rest.
"""
import torch.nn as nn

import torch_peer
import torch_text
import torch_vision


class Supernet(nn.Module):
    def __init__(self, space):
        super().__init__()
        image, width, patch = space['input'], space['width'], space['stem'].get('kernel', 16)
        grid = image['height'] // patch, image['width'] // patch
        self.patches = nn.Conv2d(image['channels'], width, patch, patch)
        self.position = nn.Embedding(grid[0] * grid[1], width)
        blocks = [(torch_peer.choices_of(item, depth), depth)
                  for item, _, depth in torch_peer.repeats_of(space['blocks'])]
        self.depths = [depth for _, depth in blocks]
        self.blocks = nn.ModuleList(
            nn.ModuleList(torch_text.candidate(width, grid, spec, 'none') for spec in choices)
            for choices, _ in blocks)
        self.norm = torch_text.norm_of(width, space.get('head', {}))
        self.out = nn.Linear(width, image['classes'])

    def forward(self, x, choice):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.position.weight
        for block, i in zip(self.blocks, choice):
            x = block[i](x)
        return self.out(self.norm(x).mean(1))


TWIN = (Supernet, torch_vision.Batches, ['contiguous'])

if __name__ == '__main__':
    torch_peer.main(*TWIN, __doc__)

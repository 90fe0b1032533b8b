"""What the PyTorch twins of recipes have in common: the optimizer, the subnets, the steps, the
command line. torch_vision.py, torch_text.py and torch_vit.py say what is trained.

What a careful user would switch on is on: oneDNN, the faster of the memory layouts that a twin
names (auto measures them), the fused optimizer, gradients set to None. Updates are of the active
paths alone, weight decay on matrices alone; a norm that is clipped is that of all gradients. A step
is forward, backward and update; making its batch is not counted. With --products, those of the
forward and backward passes may round what they multiply: to TF32, or, by autocast, to bf16. The
subnets trained and the seconds that they took go to NOTES (notes.py). Needs torch >= 2.4 and
PyYAML. agree.py shows whether a twin is the recipe's network.
"""
import argparse
import os
import statistics
import time

import torch
import torch.nn.functional as F
import yaml

import notes

WARM_STEPS, TRIAL_STEPS = 5, 10
NO_DEPTH = (None, 0, 1)  # whose a block is, how many of its depths pass over it, and of how many
LAYOUTS = {'contiguous': torch.contiguous_format, 'channels_last': torch.channels_last}


def repeats_of(items, depth=NO_DEPTH, first=True):
    """Each repeat of the items of a list, and of lists that are repeated as wholes: the item,
    whether the repeat is the first, and of which depth it is."""
    for item in items:
        depths, which = item.get('depth', [item.get('repeat', 1)]), object()
        for i in range(depths[-1]):
            own = (which, sum(n <= i for n in depths), len(depths)) if 'depth' in item else depth
            if 'blocks' in item:
                yield from repeats_of(item['blocks'], own, first and i == 0)
            else:
                yield item, first and i == 0, own


def choices_of(item, depth):
    """The candidates of an item's blocks; of those that may be passed over an identity more."""
    return item['choices'] + [{'op': 'identity'}] * (depth[1] > 0)


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
    """Trains supernet(space), which makes logits [rows, classes] of inputs and choices, on what
    batches(recipe, directory, generator) has: inputs and the targets of its rows, the next() so
    many samples, or the first() ones as they are, which are that part() of the data."""

    def __init__(self, supernet, batches, recipe, directory, layout, device, half):
        seed, train = recipe.get('seed', 0), recipe['train']
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.layout, self.batch, self.device = layout, train.get('batch', 16), device
        self.half = half
        self.net = supernet(recipe['space']).to(device, memory_format=layout)
        self.candidates = [len(block) for block in self.net.blocks]
        self.depths = self.net.depths
        self.ties = getattr(self.net, 'ties', range(len(self.candidates)))
        self.optimizer = make_optimizer(self.net, train.get('optimizer', {}))
        self.limit = train.get('clip', {}).get('limit')
        self.smoothing = train.get('loss', {}).get('label_smoothing', 0.0)
        self.batches = batches(recipe, directory, self.generator)
        sampler = recipe.get('sampler', {})
        self.fair = sampler.get('kind', 'uniform') == 'fair'
        self.members = max(self.candidates) if self.fair else sampler.get('members', 1)

    def draw(self, bound):
        return int(torch.randint(0, bound, (), generator=self.generator))

    def draw_subnet(self):
        """A choice for each block: that of the block to which it is tied, or the last one where the
        depth passes over it."""
        drawn, choices = {}, []
        for count, tie, (which, level, depths) in zip(self.candidates, self.ties, self.depths):
            if tie < len(choices):
                choices.append(choices[tie])
                continue
            if level > 0 and which not in drawn:
                drawn[which] = self.draw(depths)
            passed = level > 0 and drawn[which] < level
            choices.append(count - 1 if passed else self.draw(count - (level > 0)))
        return choices

    def draw_subnets(self):
        """A list of choices for each member of the step."""
        if self.fair:
            orders = [torch.randperm(n, generator=self.generator) for n in self.candidates]
            return [[int(order[m % len(order)]) for order in orders] for m in range(self.members)]
        return [self.draw_subnet() for _ in range(self.members)]

    def wait(self):
        if self.device == 'cuda':
            torch.cuda.synchronize()

    def step(self):
        """One step: its subnets, its seconds and its loss."""
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
        if self.limit:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.limit)
        self.optimizer.step()
        self.wait()
        return subnets, time.perf_counter() - begin, total / len(subnets)

    def run(self, steps):
        """What step() returned of so many steps after the first ones, and of these."""
        return [self.step() for _ in range(WARM_STEPS + steps)]


def median_seconds(done):
    return statistics.median(seconds for _, seconds, _ in done[WARM_STEPS:])


def main(supernet, batches, layouts, usage):
    """Trains the recipe of the command line and prints one line."""
    parser = argparse.ArgumentParser(usage=' '.join(usage.split('\n\n')[1].split())[7:])
    parser.add_argument('recipe')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--steps', type=int, help="default: the recipe's, less the first few")
    parser.add_argument('--device', choices=['cpu', 'cuda'], default='cpu')
    parser.add_argument('--layout', choices=['auto', *layouts], default='auto')
    parser.add_argument('--products', choices=['float32', 'tf32', 'bf16'], default='float32')
    parser.add_argument('--notes')
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tf32, half = args.products == 'tf32', args.products == 'bf16'
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    with open(args.recipe, encoding='utf-8') as file:
        recipe = yaml.safe_load(file)
    directory = os.path.dirname(os.path.abspath(args.recipe))

    def trainer(name):
        return Trainer(supernet, batches, recipe, directory, LAYOUTS[name], args.device, half)

    layout = layouts[0] if args.layout == 'auto' else args.layout
    if args.layout == 'auto' and len(layouts) > 1:
        layout = min(layouts, key=lambda name: median_seconds(trainer(name).run(TRIAL_STEPS)))
    chosen = trainer(layout)
    done = chosen.run(args.steps or max(recipe['train']['steps'] - WARM_STEPS, 1))
    if args.notes:
        notes.write(args.notes, [choice for subnets, _, _ in done for choice in subnets],
                    [seconds for _, seconds, _ in done])
    seconds, losses = median_seconds(done), [loss for _, _, loss in done[WARM_STEPS:]]
    print(f'torch {torch.__version__} threads {args.threads} {layout} step {seconds * 1e3:.1f} ms '
          f'samples/s {chosen.batch * chosen.members / seconds:.0f} '
          f'first loss {losses[0]:.3f} last loss {statistics.mean(losses[-5:]):.3f}')

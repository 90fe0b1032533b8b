#!/usr/bin/env python3
"""What a peer trained and when, so that np-train can train the same subnets, and be timed alike.

usage: notes.py SCRIPT [ARG...] --notes NOTES

Runs a script that trains a supernet in PyTorch and keeps no notes itself: that draws each step's
subnet by one torch.randint, and leaves its `blocks` and the `times` of its last steps behind.

NOTES.subnets has a line for each subnet, as np-train --subnets reads them; NOTES.steps, as
tests/bench/lib.sh reads them, for each step the seconds that had gone by at its end, without those
of steps that were not timed.
"""
import argparse
import itertools
import runpy
import sys


def write(notes, subnets, seconds):
    with open(notes + '.subnets', 'w', encoding='ascii') as file:
        file.writelines(' '.join(map(str, choice)) + '\n' for choice in subnets)
    with open(notes + '.steps', 'w', encoding='ascii') as file:
        file.writelines(f'{end:.6f}\n' for end in itertools.accumulate(seconds))


def main():
    import torch

    parser = argparse.ArgumentParser(usage=' '.join(__doc__.split('\n\n')[1].split())[7:])
    parser.add_argument('script')
    parser.add_argument('--notes', required=True)
    args, rest = parser.parse_known_args()
    drawn, randint = [], torch.randint

    def noted(low, high, size, **options):
        numbers = randint(low, high, size, **options)
        drawn.append((high, numbers.tolist()))
        return numbers

    torch.randint, sys.argv = noted, [args.script, *rest]
    left = runpy.run_path(args.script, run_name='__main__')
    blocks, times = left['blocks'], left['times']
    subnets = [choice for high, choice in drawn
               if high == len(blocks[0]) and len(choice) == len(blocks)]
    write(args.notes, subnets, [0.0] * (len(subnets) - len(times)) + times)


if __name__ == '__main__':
    main()

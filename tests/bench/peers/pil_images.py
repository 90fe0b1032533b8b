"""The peer of tests/bench/images: what torchvision makes of PIL images, on one thread.

usage: pil_images.py IDX HUE    milliseconds an image: the middle; resized parts, mirrored; these
                                with brightness, contrast and saturation; with HUE, too
"""
import sys
import time

import torch
from PIL import Image
from torchvision import transforms

SIDE, STORED, COUNT, ROUNDS = 224, 256, 32, 6


def main():
    torch.set_num_threads(1)
    with open(sys.argv[1], 'rb') as file:
        file.seek(20)
        images = [Image.frombytes('RGB', (STORED, STORED), file.read(STORED * STORED * 3))
                  for _ in range(COUNT)]
    part = [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip()]
    end = [transforms.ToTensor(),
           transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    for begin in ([transforms.CenterCrop(SIDE)], part,
                  part + [transforms.ColorJitter(0.4, 0.4, 0.4)],
                  part + [transforms.ColorJitter(0.4, 0.4, 0.4, float(sys.argv[2]))]):
        transform, best = transforms.Compose(begin + end), float('inf')
        for _ in range(ROUNDS):
            start = time.process_time()
            for image in images:
                transform(image)
            best = min(best, 1000 * (time.process_time() - start) / COUNT)
        print(f'{best:.4f}')


if __name__ == '__main__':
    main()

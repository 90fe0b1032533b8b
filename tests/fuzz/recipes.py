"""Random recipes with their data, valid by construction: what np-train refuses is a fault."""

import json
import os

import inputs
from spaces import Images, Sequences, deepen, divisors, odds


class Recipe:
    """recipe.yaml in `folder`, in the JSON that YAML has in it, and what plans must know of it."""

    def __init__(self, r, folder):
        self.kind = r.choice(["images"] * 4 + ["tokens"] * 2 + ["pairs"])
        self.fair = odds(r, 0.1)
        source = {"images": inputs.images, "pairs": inputs.pairs,
                  "tokens": inputs.tokens if odds(r, 0.3) else inputs.text}[self.kind]
        data, given = source(r, folder)
        space = self._space(r, given, data["kind"].startswith("cifar"))
        if not self.fair:
            space["blocks"] = [deepen(block) for block in space["blocks"]]
        train = self._train(r)
        if self.batch_norm:
            train["calibration"] = r.choice([1, 2, 3])
        self._each = self._listed({"blocks": space["blocks"]})
        self.candidates = [count for count, _, _, _ in self._each]
        self.positions = len(self.candidates) + 2
        self.data_files = data["files"]
        text = {"naspipe": "recipe/1", "seed": r.choice([0, 1, 7, r.getrandbits(32), 2**64 - 1]),
                "data": self._parts(r, data, given), "space": space, "shared": self._shared(r),
                "sampler": self._sampler(r), "train": train}
        self.distill = self.members > 1 and self.same and odds(r, 0.7)
        if self.distill:
            train.setdefault("loss", {})["distill"] = r.choice([0.25, 0.9, 1])
        with open(os.path.join(folder, "recipe.yaml"), "w") as out:
            json.dump(text, out, indent=1)
            out.write("\n")

    def _space(self, r, given, large):
        width = r.choice([1, 2, 3, 4, 6, 8] if large else
                         [1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 32, 33, 40, 63, 64, 65])
        counts = [1, r.choice([2, 3])] if self.fair else [1, 2, 3, 4, 5]
        space = Images(r, width, counts, large) if self.kind == "images" else \
            Sequences(r, width, counts)
        made = space.space(given)
        self.batch_norm = space.batch_norm
        return made

    @staticmethod
    def _listed(block):
        """Of the blocks of an item: how many candidates, how many of a width, its tie, and of its
        depth which one, how many pass over it, and how many there are."""
        repeat = block.get("repeat", 1)
        if "depth" in block:
            once = {key: value for key, value in block.items() if key not in ("repeat", "depth")}
            depths, listed, which = block["depth"], Recipe._listed(once), object()
            levels = [sum(n <= i for n in depths) for i in range(repeat)]
            return [(count // each * (each + (level > 0)), each + (level > 0), tie,
                     (which, level, len(depths)))
                    for level in levels for count, each, tie, _ in listed]
        if "blocks" in block:
            return [b for item in block["blocks"] for b in Recipe._listed(item)] * repeat
        nodes, two = block.get("cell", 2), block.get("inputs", 1) == 2
        each = len(block["choices"])
        one = (each * len(block.get("widths", [0])), each, block.get("tie_widths"), (None, 0, 1))
        edges = [one] * (nodes * (nodes - 1) // 2 - two)
        fixed = (1, 1, None, (None, 0, 1))
        return ([fixed, fixed] + edges + [fixed] * (nodes - 3) if two else edges) * repeat

    def settled(self, subnet):
        """The subnet with the width of the first block wherever widths are tied, and one depth for
        what is of one."""
        widths, drawn, out = {}, {}, []
        for choice, (_, each, tie, (which, level, depths)) in zip(subnet, self._each):
            width = widths.setdefault(tie, choice // each) if tie else choice // each
            choice %= each
            if level > 0:
                passed = drawn.setdefault(which, choice % depths) < level
                choice = each - 1 if passed else choice % (each - 1)
            out.append(width * each + choice)
        return out

    @staticmethod
    def _parts(r, data, given):
        train, valid = data | {"part": [0.0, 0.7]}, data | {"part": [0.7, 1.0]}
        if given["kind"] == "images":
            least = min(given["height"], given["width"])
            if odds(r, 0.3):
                low = r.choice([0.01, 0.08, 0.5, 1])
                train["scale"] = [low, r.choice([low, 1])]
            elif odds(r, 0.5) and least > 1:
                train["crop"] = r.randrange(1, least)
            train["flip"] = odds(r, 0.5)
            train["cutout"] = r.randrange(least + 1)
            if odds(r, 0.3) and given["channels"] in (1, 3):
                kinds = ["brightness", "contrast", "saturation", "hue"][:given["channels"] + 1]
                train["jitter"] = {kind: r.choice([0, 0.1, 0.4, 0.5]) for kind in kinds}
        train["order"] = r.choice(["drawn", "shuffled"])
        return {"train": train, "valid": valid}

    @staticmethod
    def _shared(r):
        if odds(r, 0.2):
            return {"policy": "frozen"}
        return {"policy": "delay", "steps": r.choice([1, 1, 2, 3, 4])}

    def _sampler(self, r):
        self.same = False
        if self.fair:
            self.members = max(self.candidates)
            return {"kind": "fair"}
        kind = r.choice(["uniform", "uniform", "spread", "spread", "sandwich"])
        self.members = r.choice([2, 3] if kind == "sandwich" else [1, 1, 1, 2, 3])
        sampler = {"kind": kind, "members": self.members}
        if kind == "spread":
            sampler["spread"] = r.choice([1, 2, 8])
        if odds(r, 0.2):
            sampler["batch"] = r.choice(["own", "same"])
        self.same = sampler.get("batch", "same" if kind == "sandwich" else "own") == "same"
        return sampler

    @staticmethod
    def _optimizer(r):
        if odds(r, 0.5):
            adamw = {"kind": "adamw", "lr": r.choice([0.01, 0.001])}
            if odds(r, 0.5):
                adamw["weight_decay"] = r.choice([0.0, 0.1, 2.0])
            if odds(r, 0.3):
                adamw |= {"beta1": r.choice([0.0, 0.5]), "beta2": r.choice([0.0, 0.9])}
            return adamw
        sgd = {"kind": "sgd", "lr": r.choice([0.05, 0.01]), "momentum": r.choice([0.0, 0.5, 0.9]),
               "weight_decay": r.choice([0.0, 0.01])}
        if sgd["momentum"]:
            sgd["nesterov"] = odds(r, 0.5)
        return sgd

    def _train(self, r):
        self.steps = r.choice([2, 3, 4, 6, 9])
        self.batch = r.choice([1, 2, 3, 4, 6, 8, 9])
        self.grains = r.choice(divisors(self.batch))
        train = {"steps": self.steps, "batch": self.batch, "grain": self.batch // self.grains,
                 "optimizer": self._optimizer(r)}
        if odds(r, 0.5):
            kinds = ["constant", "linear", "cosine", "inverse_sqrt", "multistep", "step"]
            train["schedule"] = {"kind": r.choice(kinds), "warmup": r.choice([1, 2, 3])}
            if train["schedule"]["kind"] == "multistep":
                train["schedule"]["milestones"] = [3, r.choice([4, 7])]
            if train["schedule"]["kind"] == "step":
                train["schedule"] |= {"every": r.choice([1, 2, 5]), "gamma": r.choice([0.5, 0.97])}
            if train["schedule"]["kind"] in ("linear", "cosine") and odds(r, 0.5):
                train["schedule"]["final"] = r.choice([0.01, 0.25])
        if odds(r, 0.5):
            train["clip"] = {"kind": r.choice(["value", "layer"]),
                             "limit": r.choice([0.001, 0.1, 1.0])}
        if odds(r, 0.3):
            train["loss"] = {"kind": "cross_entropy", "label_smoothing": r.choice([0.1, 0.5])}
        if odds(r, 0.5):
            train["checkpoint_every"] = r.choice([1, 2, 3])
        return train

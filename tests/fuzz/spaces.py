"""Random search spaces, valid by construction (naspipe-recipe(5))."""

import random

ACTS = ["none", "relu", "relu6", "gelu", "swish", "hswish", "sigmoid", "hsigmoid"]
NORMALISED = ["relu_conv_bn", "sepconv", "dilconv", "resnet_basic", "bottleneck", "mbconv",
              "shuffle"]


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def odds(r, chance):
    return r.random() < chance


def _drops(r):
    return {key: r.choice([0.1, 0.5, 0.9]) for key in ["dropout", "drop_path"] if odds(r, 0.3)}


def _kernel(r):
    if odds(r, 0.4):
        return [r.choice([1, 2, 3, 5, 7]), r.choice([1, 3, 4, 5, 7, 9])]
    return r.choice([1, 2, 3, 3, 4, 5, 7] + ([8, 11, 16] if odds(r, 0.2) else []))


def _smaller(r, candidate):
    """A candidate of the same sort whose weights are a part of this one's."""
    part, groups = dict(candidate), candidate.get("groups", 1)
    kernel = part.get("kernel", 1)
    if isinstance(kernel, list):
        part["kernel"] = [r.randint(1, k) for k in kernel]
    elif "kernel" in part:
        part["kernel"] = r.randint(1, kernel)
    if "hidden" in part and part["op"] != "mbconv":  # which has no expansion of as many channels
        part["hidden"] = groups * r.randint(1, part["hidden"] // groups)
    if part["op"] == "mha" and "hidden" in part:
        part["heads"] = r.choice(divisors(part["hidden"]))
    elif part["op"] == "lightconv":
        part["heads"] = r.choice(divisors(part["heads"]))
    for key in ["ratio", "expand"]:
        if key in part:
            part[key] = r.randint(1, part[key])
    if part.get("se"):
        part["se"] = r.choice([0, part["se"], 64])
    if "act" in part:
        part["act"] = r.choice(ACTS)
    return part


def entangle(r, block):
    """Sometimes a block's candidates have parts of the first one's weights of their sort."""
    first = {}
    if odds(r, 0.3):
        block["weights"] = "entangled"
        for i, candidate in enumerate(block["choices"]):
            sort = (candidate["op"], "memory" in candidate, candidate.get("xception"))
            block["choices"][i] = _smaller(r, first[sort]) if sort in first else candidate
            first.setdefault(sort, candidate)
    return block


def _widths(r, count, largest):
    """So many widths, the largest of which is this one."""
    return sorted(r.sample(range(1, largest), count - 1)) + [largest]


def _attention(r, width):
    """Heads, and sometimes the width of all of them."""
    hidden = {"hidden": r.choice([1, 5, 8, 16, 20, 33])} if odds(r, 0.4) else {}
    return hidden | {"heads": r.choice(divisors(hidden.get("hidden", width)))}


def deepen(item):
    """Sometimes one that has repeats has a depth instead; from numbers of its own, too."""
    r, items = random.Random(repr(item)), item.get("blocks", [item])
    refused = {"name", "from", "add", "tie", "cell"}
    if "blocks" in item:
        refused |= {"out", "stride", "widths", "blocks"}
    if item.get("repeat", 1) == 1 or not odds(r, 0.4) or \
            any(refused & set(one) or ("widths" in one) != ("tie_widths" in one) for one in items):
        return item
    least = r.randrange(1, item["repeat"])
    return item | {"depth": list(range(least, item["repeat"] + 1))}


class Images:
    """Blocks of images; `batch_norm` says in the end whether any layer has it."""

    def __init__(self, r, width, counts, small):
        self.r, self.width, self.counts, self.small = r, width, counts, small
        self.may_norm = odds(r, 0.55)
        self.tied = {}  # how many widths each tie of them has
        self.batch_norm = False

    def norm(self, *others):
        norm = self.r.choice([*others] + ["batch"] * 2 * self.may_norm)
        self.batch_norm |= norm == "batch"
        return norm

    def ops(self, read, made, stride):
        """Operators that can make `made` channels of `read`."""
        keeps = read == made and stride == 1
        ops = ["conv2d", "conv2d", "zero"]
        if self.may_norm:
            ops += ["relu_conv_bn", "sepconv", "dilconv", "resnet_basic", "bottleneck", "mbconv",
                    "mbconv"]
            if made % 2 == 0 and (stride == 2 or read == made):
                ops += ["shuffle", "shuffle"]
        if read == made:
            ops += ["dwconv2d", "max_pool", "avg_pool"]
        if keeps:
            ops += ["mha", "ffn", "gated_ffn", "norm"]
        if keeps or (self.may_norm and (stride == 1 or made % 2 == 0)):
            ops += ["identity"]
        return ops

    def keys(self, op, read, made):
        r = self.r
        act = {"act": r.choice(ACTS)}
        dilation = {"dilation": r.choice([1, 2])} if odds(r, 0.4) else {}
        if op == "conv2d":
            groups = r.choice([g for g in divisors(read) if made % g == 0]) if odds(r, 0.5) else 1
            return act | dilation | {"groups": groups, "norm": self.norm("group", "layer", "none")}
        if op == "dwconv2d":
            return act | dilation | {"norm": self.norm("group", "layer", "none")}
        if op in ("relu_conv_bn", "dilconv"):
            return dilation
        if op == "resnet_basic":
            return act | _drops(r) | {"hidden": r.choice([1, 3, 7, 16, 17, 33])}
        if op == "bottleneck":
            hidden = r.choice([1, 3, 6, 16, 24, 33])
            return act | _drops(r) | {"hidden": hidden, "groups": r.choice(divisors(hidden)),
                                      "se": r.choice([0, 0, 1, 4])}
        if op == "mbconv":
            between = {"expand": r.choice([1, 1, 2, 3, 5])} if odds(r, 0.7) else \
                {"hidden": r.choice([1, 7, 16, read])}
            return act | _drops(r) | between | {"se": r.choice([0, 1, 2, 4, 64])}
        if op == "norm":
            return act | {"norm": self.norm("group", "layer")}
        if op == "shuffle":
            return {"xception": odds(r, 0.5)}
        if op in ("max_pool", "avg_pool"):
            return {"norm": self.norm("none", "none")}
        if op == "mha":
            options = _drops(r) | _attention(r, read)
            near = random.Random(repr(options)).choice(["none", "relative"])
            return options | {"positions": near}
        if op in ("ffn", "gated_ffn"):
            between = {"ratio": r.choice([1, 2, 3])} if odds(r, 0.7) else \
                {"hidden": r.choice([1, 7, 33])}
            return act | _drops(r) | between
        return {}

    def candidate(self, read, made, stride):
        op = self.r.choice(self.ops(read, made, stride))
        candidate = {"op": op}
        if op not in ("zero", "identity", "mha", "ffn", "gated_ffn", "norm"):
            candidate["kernel"] = _kernel(self.r)
        self.batch_norm |= op in NORMALISED
        self.batch_norm |= op == "identity" and (read != made or stride == 2)
        return candidate | self.keys(op, read, made)

    def channels(self):
        return self.r.choice([1, 2, 3, 4, 8] if self.small else
                             [1, 2, 3, 4, 8, 10, 12, 16, 17, 33, 34, 64, 65])

    def choices(self, read, made, stride):
        return [self.candidate(read, made, stride) for _ in range(self.r.choice(self.counts))]

    def tie(self, block):
        """One of the few ties of blocks that are like it."""
        if odds(self.r, 0.3):
            like = (block.get("cell"), block.get("inputs"), len(block["choices"]))
            block["tie"] = f"{like} {self.r.choice('ab')}"
        return block

    def block(self):
        r, block = self.r, {}
        height, width, read = self.made[-1]
        made, stride = read, 1
        if odds(r, 0.4):
            made = block["out"] = self.channels()
        if odds(r, 0.3):
            stride = block["stride"] = 2
        block["repeat"] = r.choice([1, 1, 2, 3])
        if odds(r, 0.3):
            block["cell"] = r.choice([2, 3, 4])
            block["repeat"] = 1 if block["cell"] == 4 else min(block["repeat"], 2)
        block["choices"] = self.choices(read, made, stride)
        self.make(-(-height // stride), -(-width // stride), made, block["repeat"])
        return [self.tie(entangle(r, block))]

    def narrow(self):
        """Blocks whose channels are a choice: of the stage, of the network, or of each."""
        r, (height, width, _) = self.r, self.made[-1]
        tie = r.choice([None, "network", f"stage {len(self.tied)}"])
        count = self.tied.setdefault(tie, r.choice([1, 2, 3]))
        made, stride = count - 1 + self.channels(), r.choice([1, 1, 2])
        entangled = odds(r, 0.5)
        ops = ["conv2d"] + ["relu_conv_bn", "sepconv", "dilconv"] * self.may_norm
        if not entangled:
            ops += ["zero"] + ["resnet_basic", "bottleneck", "mbconv"] * self.may_norm
        blocks = [{"widths": _widths(r, count, made), "repeat": r.choice([1, 1, 2]),
                   "choices": [self.of_width(r.choice(ops)) for _ in range(r.choice([1, 2, 3]))]}
                  for _ in range(r.choice([1, 2]))]
        blocks[0]["stride"] = stride
        for block in blocks:
            block |= {"tie_widths": tie} if tie else {}
            if entangled:
                entangle(r, block)
        for block in blocks:
            self.make(-(-height // stride), -(-width // stride), made, block["repeat"])
        return blocks

    def of_width(self, op):
        """A candidate that may make any number of channels of any other."""
        self.batch_norm |= op in NORMALISED
        kernel = {} if op == "zero" else {"kernel": _kernel(self.r)}
        return {"op": op} | kernel | self.keys(op, 1, 1)

    def make(self, height, width, channels, repeat=1):
        """What the last repeat makes, and the one before it: the sizes of all but the first."""
        self.made += [(height, width, channels)] * min(repeat, 2)
        self.made = self.made[-2:]

    def two_inputs(self):
        """A cell of two inputs, if that is possible."""
        r = self.r
        (h0, w0, _), (height, width, _) = self.made[0], self.made[-1]
        same, half = (h0, w0) == (height, width), (-(-h0 // 2), -(-w0 // 2)) == (height, width)
        if not self.may_norm or not (same or half):
            return self.block()
        made, stride, repeat = self.channels(), r.choice([1, 1, 2]), r.choice([1, 1, 2])
        made += made == 1
        block = {"cell": r.choice([3, 4, 5][:2 if self.small else 3]), "inputs": 2, "out": made,
                 "stride": stride, "repeat": repeat, "choices": self.choices(made, made, stride)}
        self.batch_norm = True
        self.make(-(-height // stride), -(-width // stride), made * (block["cell"] - 2), repeat)
        return [self.tie(entangle(r, block))]

    def named(self):
        """A block of one candidate with a name, which passes on what was made."""
        self.names += 1
        return {"name": f"n{self.names}", "choices": [{"op": "identity"}]}

    def branches(self):
        """Two branches from one value, put together again."""
        r, (height, width, read) = self.r, self.made[-1]
        stride, first, second = r.choice([1, 1, 2]), self.channels(), self.channels()
        trunk, left, joined = self.named(), {"out": first, "stride": stride}, {}
        left |= {"name": trunk["name"] + "left", "choices": self.choices(read, first, stride)}
        right = {"from": trunk["name"], "stride": stride}
        if odds(r, 0.4):
            second = first
            right["add"] = left["name"]
        else:
            joined = {"out": first + second,
                      "choices": [{"op": "concat", "memory": left["name"]}]}
        right |= {"out": second, "choices": self.choices(read, second, stride)}
        self.make(-(-height // stride), -(-width // stride), joined.get("out", second))
        self.made = self.made[-1:] * 2
        return [trunk, left, right] + ([joined] if joined else [])

    def residual(self):
        """A sequence of blocks, with what it reads added in the end; or beside itself."""
        r, (height, width, read) = self.r, self.made[-1]
        trunk, between = self.named(), self.channels()
        if odds(r, 0.2):
            self.make(height, width, 2 * read)
            self.made = [(height, width, read), self.made[-1]]
            return [trunk, {"out": 2 * read,
                            "choices": [{"op": "concat", "memory": trunk["name"]}]}]
        blocks = [{"out": between, "choices": self.choices(read, between, 1)},
                  {"out": read, "add": trunk["name"], "choices": self.choices(between, read, 1)}]
        if odds(r, 0.3):
            blocks = [{"add": trunk["name"], "choices": self.choices(read, read, 1)}]
        self.made = [(height, width, between if len(blocks) == 2 else read), self.made[-1]]
        return [trunk] + blocks

    def stem(self, height, width):
        r = self.r
        if odds(r, 0.3):
            kernel = [r.choice(divisors(height)), r.choice(divisors(width))]
            return {"op": "patch", "kernel": kernel, "positions": r.choice(["learned", "none"])}
        return {"op": "conv2d", "kernel": _kernel(r), "stride": r.choice([1, 1, 2]),
                "norm": self.norm("group", "none"), "act": r.choice(ACTS)}

    def space(self, given):
        stem, blocks, self.names = self.stem(given["height"], given["width"]), [], 0
        size = [given["height"], given["width"]]
        across = stem["kernel"] if stem["op"] == "patch" else [stem["stride"]] * 2
        self.made = [(-(-size[0] // across[0]), -(-size[1] // across[1]), self.width)]
        for _ in range(self.r.choice([1, 2, 3, 4, 5][:2 if self.small else 5])):
            makes = [self.block] * 5 + [self.two_inputs, self.branches, self.residual]
            makes += [self.narrow] * 2 * (len(self.counts) > 2)
            before, items = self.made[-1], self.r.choice(makes)()
            if len(items) > 1 and odds(self.r, 0.5):
                same = self.made[-1] == before
                items = [{"repeat": self.r.choice([1, 2, 2]) if same else 1, "blocks": items}]
            blocks += items
        head = {"op": "classifier", "features": self.r.choice([0, 1, 3, 17, 33, 64]),
                "norm": self.norm("layer", "none"), "act": self.r.choice(ACTS)}
        own = random.Random(repr(head) + repr(blocks))
        if odds(own, 0.3):
            head |= {"hidden": own.choice([1, 5, 16, 33]), "dropout": own.choice([0, 0.1, 0.5])}
        return {"input": given, "width": self.width, "stem": stem, "blocks": blocks, "head": head}


class Sequences:
    """Blocks of tokens or of pairs."""

    batch_norm = False

    def __init__(self, r, width, counts):
        self.r, self.width, self.counts = r, width, counts

    def candidate(self, memory):
        r = self.r
        op = r.choice(["identity", "mha", "mha", "ffn", "gated_ffn", "glu", "conv1d", "sepconv1d",
                       "lightconv", "norm"])
        candidate = {"op": op} | (_drops(r) if op not in ("identity", "norm") else {})
        if op == "mha":
            candidate |= _attention(r, self.width)
        if op == "lightconv":
            candidate["heads"] = r.choice(divisors(self.width))
        if op == "mha" and memory:
            candidate["memory"] = memory
        elif op == "mha" and odds(r, 0.5):
            candidate["mask"] = r.choice(["causal", "none"])
        if op in ("ffn", "gated_ffn"):
            candidate |= {"ratio": r.choice([1, 2, 3, 5]), "act": r.choice(ACTS)}
        if op in ("conv1d", "sepconv1d", "lightconv"):
            candidate["kernel"] = r.choice([1, 2, 3, 4, 5, 9, 16, 33])
        return candidate

    def fit_all(self, choices):
        """Heads that divide something else than a width."""
        for candidate in choices:
            if candidate["op"] == "mha":
                candidate.setdefault("hidden", 24)
                candidate["heads"] = self.r.choice(divisors(candidate["hidden"]))
            if candidate["op"] == "lightconv":
                candidate["heads"] = 1

    def modernise(self, block):
        """Sometimes RMS norms, rotary positions, shared keys, no biases; from numbers of its own,
        so that what else is drawn is what it was."""
        r = random.Random(repr(block))
        if not odds(r, 0.4):
            return block
        entangled = "weights" in block
        if entangled:
            self.share_one(block["choices"])
        for candidate in block["choices"]:
            op = candidate["op"]
            if op not in ("identity", "embedding"):
                candidate["norm"] = "rms"
            if op in ("mha", "ffn", "gated_ffn"):
                candidate["bias"] = False
            if op == "mha" and not entangled:
                candidate["kv_heads"] = r.choice(divisors(candidate["heads"]))
            if op == "mha" and "memory" not in candidate and \
                    candidate.get("hidden", self.width) // candidate["heads"] % 2 == 0:
                candidate["positions"] = "rotary"
                candidate["base"] = r.choice([10000, 2, 500000, 1 << 30])
            elif op == "mha" and "memory" not in candidate and not entangled:
                candidate["positions"] = "relative"
        return block

    def share_one(self, choices):
        """One head of keys and values for all attention that has parts of the first one's weights,
        if those of the others are no larger."""
        mha = [c for c in choices if c["op"] == "mha"]
        sizes = [(c.get("hidden", self.width), c["heads"]) for c in mha]
        if sizes and all(1 < heads and hidden <= sizes[0][0] and
                         hidden // heads <= sizes[0][0] // sizes[0][1] for hidden, heads in sizes):
            for candidate in mha:
                candidate["kv_heads"] = 1

    def embedding(self):
        return {"op": "embedding", "positions": self.r.choice(["learned", "none"])}

    def space(self, given):
        r, blocks, names, widths = self.r, [], [], None
        if len(self.counts) > 2 and odds(r, 0.3):
            widths = _widths(r, min(r.choice([1, 2, 3]), self.width), self.width)
        for i in range(r.choice([1, 2, 3, 4])):
            block = {"repeat": r.choice([1, 1, 2, 3])}
            memory = r.choice(names) if names and odds(r, 0.6) else None
            block["choices"] = [self.candidate(memory) for _ in range(r.choice(self.counts))]
            if widths and odds(r, 0.8):
                block |= {"widths": widths, "tie_widths": "network"}
                self.fit_all(block["choices"])
            entangle(r, block)
            if odds(r, 0.6):
                block["name"] = f"b{i}"
                names.append(block["name"])
            blocks.append(block)
        if given["kind"] == "pairs":
            blocks.insert(r.randrange(len(blocks) + 1), {"choices": [self.embedding()]})
        given["length"] = r.choice([1, 2, 3, 5, 8, 16, 17, 33, 37, 65])
        return {"input": given, "width": self.width, "stem": self.embedding(),
                "blocks": [self.modernise(block) for block in blocks],
                "head": {"op": "lm", "norm": "rms" if len(blocks) % 2 else "layer"}}

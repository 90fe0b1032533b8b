"""Random plans, valid for a recipe, and ways to run them."""

from math import gcd

from spaces import divisors, odds


def cuts(r, recipe):
    chance = r.random()
    if chance < 0.25:
        return ["--cut", "static"]
    if chance < 0.45:
        return ["--cut", "balanced"]
    if chance < 0.6:
        return ["--reach", r.randint(1, recipe.positions - 1)]
    return []


def shares(recipe, replicas):
    """The numbers of micro-batches that so many replicas can share, with the members of a step."""
    legal = [1] if recipe.batch_norm else divisors(recipe.grains)
    return [m for m in legal if m % replicas == 0 or
            (not recipe.distill and recipe.members % (replicas // gcd(replicas, m)) == 0)]


def micro_batches(r, recipe, replicas):
    if recipe.batch_norm or (replicas == 1 and odds(r, 0.4)):
        return []
    return ["-M", r.choice(shares(recipe, replicas))]


def pipeline(r, recipe, replicas=1, stages=None, threads=True, cut=True):
    """Options of a pipeline, for any of the tools."""
    options = (cuts(r, recipe) if cut else []) + micro_batches(r, recipe, replicas)
    if stages or odds(r, 0.85):
        options += ["-n", stages or min(recipe.positions, r.choice([1, 2, 2, 3, 3, 4, 5]))]
    if threads and odds(r, 0.5):
        options += ["--threads", r.choice([1, 2, 3])]
    if odds(r, 0.6):
        options += ["-W", r.randint(1, 7)]
    if odds(r, 0.4):
        options += ["--unit", r.choice([1, 2, 3, 5])]
    if odds(r, 0.4):
        options += ["--recompute", r.choice(["always", "always", "never", "auto"])]
    if replicas > 1:
        options += ["--replicas", replicas]
    return [str(option) for option in options]


def replicas(r, recipe):
    """A number of replicas that the recipe can have."""
    return r.choice([count for count in range(1, 5) if shares(recipe, count)])


def manner(r, trial):
    """Options of np-train that no plan has."""
    options = ["--isa", r.choice(trial.isas)] if odds(r, 0.5) else []
    return options + (["--inject-delays", str(r.randint(1, 99))] if odds(r, 0.3) else [])


def residence(r):
    """How layers come and go where memory is bounded."""
    options = ["--stash", "stash"] if odds(r, 0.4) else []
    if odds(r, 0.6):
        options += ["--prefetch", r.choice(["ahead", "next", "demand", "lru"])]
    if odds(r, 0.4):
        options += ["--lookahead", r.choice(["1", "3", "96"])]
    return options

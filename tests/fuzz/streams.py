"""Subnets from a stream (np-train --subnets): random ones and patterns that are hard to schedule,
from files, pipes and programs, give what they give sequentially."""

import subprocess

import plans
from spaces import odds


def _patterns(r, candidates):
    """Subnets without end, by some rule of who shares layers with whom."""
    def draw():
        return [r.randrange(count) for count in candidates]

    rule = r.choice(["random", "one", "two", "drift", "bottleneck", "rotation", "wave"])
    base, other, fixed = draw(), draw(), r.randrange(len(candidates))
    step = 0
    while True:
        if rule == "random":
            yield draw()
        elif rule == "one":  # every step waits for the one before
            yield base
        elif rule == "two":
            yield [base, other][step % r.choice([2, 3]) % 2]
        elif rule == "drift":  # a block changes at a time
            at = r.randrange(len(base))
            base = base[:at] + [r.randrange(candidates[at])] + base[at + 1:]
            yield base
        elif rule == "bottleneck":  # all of them share one layer, and nothing else
            subnet = draw()
            yield subnet[:fixed] + [base[fixed]] + subnet[fixed + 1:]
        elif rule == "rotation":
            yield [(step + block) % count for block, count in enumerate(candidates)]
        else:  # what is shared with the step before begins or ends somewhere else each time
            at = step % (len(base) + 1)
            yield draw()[:at] + base[at:] if odds(r, 0.5) else base[:at] + draw()[at:]
        step += 1


def _line(r, subnet):
    before, blank = r.choice(["", "", " ", "\n", "# between\n"]), r.choice([" ", "  ", "\t"])
    return before + blank.join(map(str, subnet)) + r.choice(["", "", " ", " # behind"]) + "\n"


def _steps(r, recipe, count):
    """The text of each step: a line for each member."""
    subnets = _patterns(r, recipe.candidates)
    return ["".join(_line(r, recipe.settled(next(subnets))) for _ in range(recipe.members))
            for _ in range(count)]


def _converse(trial, name, steps, ahead, *options):
    """A program that is so many steps ahead of the losses it has read."""
    process = trial.start("np-train", "recipe.yaml", "--run", name, "--ledger", "layers",
                          "--subnets", "-", "--losses", "-", *trial.evaluated, *options,
                          stdin=subprocess.PIPE)
    losses = []
    for given, text in enumerate(steps):
        if given >= ahead:
            losses.append(process.stdout.readline())
        trial.give(process, text)
    process.stdin.close()
    said = trial.end(process, (0,)).out
    told = "".join(losses) + "".join(said.splitlines(True)[:-1])
    if told != trial.read("listed.losses").decode():
        trial.fail("the program was told other losses", told)


def streams(trial):
    r, recipe = trial.random("streams"), trial.recipe

    def plan():
        return plans.pipeline(r, recipe) + plans.manner(r, trial)

    count = r.randint(1, 12)
    steps = _steps(r, recipe, count)
    length = ["--set", f"train.steps={r.choice([count, count + 1, 100])}"]
    text = "".join(steps)
    trial.write("subnets", text.encode())
    trial.reference("listed", *length, "--subnets", "subnets")
    trial.equal("file", *length, "--subnets", "subnets", *plan(), ref="listed")
    trial.equal("pipe", *length, "--subnets", "-", *plan(), ref="listed", text=text)
    if not trial.finite["listed"]:
        return
    _converse(trial, "program", steps, r.randint(1, 5), *length, *plan())
    trial.same("listed", "program")
    stop = ["--stop-after", str(r.randint(1, count))]
    session = [*length, "--ledger", "layers", "--subnets"]
    trial.train("both", *session, "subnets", *stop, *plan())
    trial.train("both", *session, "-", "--resume", *plan(), text=text)
    trial.same("listed", "both")
    if length[1] != f"train.steps={count}":  # a bad line behind them is read, and they are kept
        bad = r.choice(["x", "0 " * len(recipe.candidates) + "0", "-1", "99999"])
        trial.train("bad", *session, "-", *plan(), text=f"{text}{bad}\n", allowed=(2,))
        trial.same("listed", "bad")

"""Random damage to what the tools read: each says so in one line, or it does not matter."""

import os
import re
import shutil

import plans
from spaces import odds

NUMBERS = [b"0", b"-1", b"1", b"2", b"1.5", b"nan", b"1e999", b"99999999999999999999", b"[1]", b""]
BYTES = [b"\0", b"\xff", b"\n", b" ", b"0", b"z"]


def _change(r, content):
    at = r.randrange(len(content) + 1)
    to = r.randrange(at, min(len(content), at + r.choice([1, 4, 100])) + 1)
    lines, numbers = content.splitlines(True), list(re.finditer(rb"\d+", content))
    how = r.choice(["bit", "byte", "end", "gap", "twice", "number", "line", "order"])
    if how == "bit" and at < len(content):
        return content[:at] + bytes([content[at] ^ 1 << r.randrange(8)]) + content[at + 1:]
    if how == "byte":
        return content[:at] + r.choice(BYTES) + content[to:]
    if how == "end":
        return content[:at]
    if how == "gap":
        return content[:at] + content[to:]
    if how == "twice":
        return content[:to] + content[at:]
    if how == "number" and numbers:
        number = r.choice(numbers)
        return content[:number.start()] + r.choice(NUMBERS) + content[number.end():]
    if how == "line" and lines:
        lines.pop(r.randrange(len(lines)))
    if how == "order":
        r.shuffle(lines)
    return b"".join(lines)


def changed(r, content):
    """The content with one random change, or a few."""
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        content = _change(r, content)
    return content


def spoil(trial, r, name):
    os.chmod(trial.path(name), 0o644)
    trial.write(name, changed(r, trial.read(name)))


def tree(trial, name):
    """Every file below a folder, with its content."""
    files = [os.path.join(at, file) for at, _, files in os.walk(trial.path(name)) for file in files]
    return {os.path.relpath(file, trial.folder): trial.read(file) for file in files}


def absent_or_sound(trial, name, result):
    """What a training leaves behind."""
    if os.path.exists(trial.path(name)):
        trial.run("np-verify", "--fsck", name)
    elif result.code == 0:
        trial.fail(f"{name} is not there")


def data(trial, r):
    os.mkdir(trial.path("data"))
    for name in ["recipe.yaml", *trial.recipe.data_files]:
        shutil.copy(trial.path(name), trial.path("data"))
    spoil(trial, r, "data/" + r.choice(trial.recipe.data_files))
    result = trial.train("data/run", *trial.evaluated, *plans.pipeline(r, trial.recipe),
                         recipe="data/recipe.yaml", allowed=(0, 1, 2))
    absent_or_sound(trial, "data/run", result)
    if result.code == 2 and os.path.exists(trial.path("data/run")):
        trial.fail("a run was begun with bad data")


def recipe(trial, r):
    form = r.choice(["recipe.yaml", "ref/recipe.yaml"])
    trial.write("bad.yaml", changed(r, trial.read(form)))
    result = trial.train("other", "--stop-after", "1", recipe="bad.yaml", allowed=(0, 1, 2))
    absent_or_sound(trial, "other", result)
    trial.run("np-partition", "bad.yaml", "--profile-from", "model", "--estimate", allowed=(0, 2))
    trial.run("np-predict-trace", "bad.yaml", "--steps", "5", allowed=(0, 2))


def plan(trial, r):
    memory = ["--device-memory", "1GiB"] if odds(r, 0.3) else []
    trial.run("np-partition", "recipe.yaml", "--profile-from", "model", "-o", "bad-plan.yaml",
              *plans.pipeline(r, trial.recipe), *memory)
    spoil(trial, r, "bad-plan.yaml")
    result = trial.train("misplanned", "--ledger", "layers", "--plan", "bad-plan.yaml",
                         allowed=(0, 1, 2))
    if result.code == 0:
        trial.same("ref", "misplanned")
    elif os.path.exists(trial.path("misplanned")):
        trial.fail("a run was begun with a bad plan")
    trial.run("np-predict-trace", "recipe.yaml", "--plan", "bad-plan.yaml", allowed=(0, 1, 2))


def stream(trial, r):
    subnets = [[r.randrange(count) for count in trial.recipe.candidates]
               for _ in range(5 * trial.recipe.members)]
    lines = "".join(" ".join(map(str, trial.recipe.settled(subnet))) + "\n" for subnet in subnets)
    trial.write("stream", changed(r, lines.encode()))
    result = trial.train("streamed", "--subnets", "stream", allowed=(0, 1, 2))
    if result.code == 2 and os.path.exists(trial.path("streamed")):
        trial.fail("a run was begun with a bad stream")
    absent_or_sound(trial, "streamed", result)


def trace(trial, r):
    trial.train("traced", "--trace", "bad.json", *plans.pipeline(r, trial.recipe))
    spoil(trial, r, "bad.json")
    trial.run("np-predict-trace", "recipe.yaml", "--against", "bad.json", allowed=(0, 2))


def run(trial, r):
    """One file of a run: it is noticed or does not matter, and nothing else is lost."""
    recipe = trial.recipe
    trial.train("broken", "--ledger", "layers", "--stop-after", str(r.randint(1, recipe.steps)),
                *plans.pipeline(r, recipe))
    files = sorted(tree(trial, "broken"))
    objects = [name for name in files if "/objects/" in name]
    others = [name for name in files if name not in objects]
    name = r.choice(objects if objects and odds(r, 0.3) else others)
    spoil(trial, r, name)
    trial.log.append(f"({name} is damaged)")
    before = tree(trial, "broken")
    sound = trial.run("np-verify", "--fsck", "broken", allowed=(0, 1, 2)).code == 0
    trial.run("np-verify", "ref", "broken", allowed=(0, 1, 2))
    resumed = trial.train("broken", "--ledger", "layers", "--resume", *plans.pipeline(r, recipe),
                          allowed=(0, 2)).code == 0
    if not resumed and tree(trial, "broken") != before:
        trial.fail("what was not continued was changed")
    if not resumed and sound:
        trial.fail("what is said to be sound cannot be continued")
    if resumed and sound and name != "broken/layers.tsv":  # which may lack steps
        trial.same("ref", "broken")
    elif resumed:
        trial.same_file(*(f"{run}/checkpoints/{recipe.steps:010}.manifest"
                          for run in ["ref", "broken"]))


def damage(trial):
    for what in [data, recipe, plan, stream, trace, run]:
        what(trial, trial.random(f"damage to {what.__name__}"))

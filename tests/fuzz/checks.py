"""What is tried with a recipe whose reference was trained: each function takes its trial."""

import json
import re
import signal

import plans
from spaces import odds


def pipelines(trial):
    r = trial.random("pipelines")
    for i in range(3):
        count = plans.replicas(r, trial.recipe) if i == 0 else 1
        trial.equal(f"plan{i}", *plans.pipeline(r, trial.recipe, count),
                    *plans.manner(r, trial))


def interruptions(trial):
    """Stopped, terminated or killed and resumed, under another plan each time."""
    r, recipe, step = trial.random("interruptions"), trial.recipe, 0
    while step < recipe.steps:
        session = ["--ledger", "layers", *(["--resume"] if step else []), *trial.evaluated,
                   *plans.pipeline(r, recipe), *plans.manner(r, trial)]
        steps = r.randint(1, recipe.steps - step)
        how = r.choice([None, signal.SIGTERM, signal.SIGKILL])
        step += steps
        if how:
            trial.signalled("parts", steps, how, *session)
        else:
            trial.train("parts", *session, "--stop-after", str(step))
    trial.train("parts", "--ledger", "layers", "--resume", *plans.pipeline(r, recipe))
    trial.same("ref", "parts")


def shuffle(r, blocks):
    """The candidates of every block in another order."""
    for block in blocks:
        if "blocks" in block:
            shuffle(r, block["blocks"])
        else:
            r.shuffle(block["choices"])


def heirs(trial):
    """What begins with the reference's weights, with other moments and candidates in another order,
    is the same by every plan, and when it is pruned."""
    r, text = trial.random("heirs"), json.loads(trial.read("recipe.yaml"))
    text["seed"] = r.getrandbits(32)
    text["train"]["optimizer"] = r.choice([{"kind": "sgd", "lr": 0.01}, {"lr": 0.001},
                                           {"kind": "sgd", "lr": 0.01, "momentum": 0}])
    shuffle(r, text["space"]["blocks"])
    trial.write("heir.yaml", json.dumps(text).encode())
    how = {"recipe": "heir.yaml"}
    trial.reference("heir", "--init", "ref", **how)
    for i in range(2):
        trial.equal(f"heir{i}", "--init", "ref", *plans.pipeline(r, trial.recipe),
                    *plans.manner(r, trial), ref="heir", **how)
    if trial.finite["heir"]:
        stop = str(r.randint(1, trial.recipe.steps))
        pruned = ["--keep", r.choice("12"), "--stop-after", stop]
        trial.train("pruned", "--init", "ref", *pruned, **how)
        trial.train("pruned", "--resume", "--keep", r.choice("12"), **how)
        trial.run("np-verify", "heir", "pruned")
        trial.run("np-verify", "--fsck", "pruned")
        trial.same_file("heir/ledger.tsv", "pruned/ledger.tsv")


def derived(trial):
    """Subnets with recipes of their own, which score what they do in the supernet."""
    r, one = trial.random("derived"), ["--batches", "1", "-q"]
    scores = trial.run("np-evaluate", "recipe.yaml", "--run", "ref", "--random", "3", *one)
    for i, line in enumerate(scores.out.splitlines()):
        *score, subnet = line.split("\t")
        told = trial.run("np-derive", "recipe.yaml", "--subnet", "-", "-o", "own.yaml",
                         text=subnet + "\n", allowed=(0, 2))
        if told.code == 2:
            if not re.search("in this subnet no block reads what block \\d+ makes$", told.err):
                trial.fail("not what np-derive may say", told.err)
            continue
        how = {"recipe": "own.yaml", "allowed": (0, 1)}  # a step more may not be finite
        trial.train(f"own{i}", "--init", "ref", "--stages", str(r.randint(1, 3)), **how)
        alone = trial.run("np-evaluate", "own.yaml", "--run", f"own{i}", "--step", "0",
                          "--random", "1", *one)
        if alone.out.split("\t")[:2] != score:
            trial.fail(f"{subnet}: {score}, alone {alone.out}")


def least_memory(trial, *plan):
    """The least that np-partition names for such a plan."""
    refusal = trial.run("np-partition", "recipe.yaml", "--profile-from", "model", *plan,
                        "--device-memory", "1KiB", allowed=(1,)).err
    return int(re.search(r"needs at least (\d+) bytes", refusal).group(1))


def memory(trial):
    """The least memory that np-partition names is enough for every tool, and so is more."""
    r, recipe = trial.random("memory"), trial.recipe
    count = plans.replicas(r, recipe) if odds(r, 0.2) else 1
    plan = plans.pipeline(r, recipe, count, cut=count == 1)
    least = least_memory(trial, *plan)
    trial.run("np-partition", "recipe.yaml", "--profile-from", "model", *plan, "--device-memory",
              str(least), "-o", "least.yaml")
    trial.equal("least", "--plan", "least.yaml", "--trace", "least.json")
    predict = ["np-predict-trace", "recipe.yaml", "--plan", "least.yaml"]
    trial.run(*predict, "--steps", "12")
    if trial.finite["ref"]:
        trial.run(*predict, "--against", "least.json")
    for more in r.sample([0, r.randrange(1, 5000), r.randrange(5000, 100000), 1000000], 2):
        how = plans.residence(r) if count == 1 else []
        trial.equal(f"memory{more}", *plan, "--device-memory", str(least + more), *how,
                    *plans.manner(r, trial))


def plan_files(trial):
    """A plan that is written is trained and simulated; costs are measured now and then."""
    r, recipe = trial.random("plan files"), trial.recipe
    make = ["np-partition", "recipe.yaml", "-o", "plan.yaml",
            *plans.pipeline(r, recipe, plans.replicas(r, recipe))]
    trial.run(*make, *([] if odds(r, 0.05) else ["--profile-from", "model"]))
    trial.equal("planned", "--plan", "plan.yaml", "--trace", "trace.json", *plans.manner(r, trial))
    predict = ["np-predict-trace", "recipe.yaml"]
    rules = ["csp", "sequential", "gpipe", "1f1b"] + ["naspipe", "all"] * (recipe.members == 1)
    trial.run(*predict, "--plan", "plan.yaml", "--steps", "20", "--schedule",
              "csp" if b"replicas:" in trial.read("plan.yaml") else r.choice(rules))
    if trial.finite["ref"]:
        trial.run(*predict, "--plan", "plan.yaml", "--against", "trace.json")
    trial.run(*predict, "--steps", "9", "--costs", r.choice(["unit", "lognormal"]),
              *plans.pipeline(r, recipe))
    trial.run("np-partition", "recipe.yaml", "--estimate", "--profile-from", "model")


def gpus(trial):
    """The same bits on the shim's GPUs, which do the work of streams in random orders."""
    r, recipe = trial.random("gpus"), trial.recipe
    for i in range(2):
        stages = r.randint(1, min(4, recipe.positions))
        devices = r.sample(range(4), r.randint(1, stages))
        plan = plans.pipeline(r, recipe, stages=stages, threads=False)
        env = {"SHIM_SEED": str(r.randint(1, 999)), "SHIM_DEVICES": "4",
               "SHIM_PEERS": r.choice("01")}
        trial.equal(f"gpu{i}", "--backend", "cuda", "--devices", ",".join(map(str, devices)), *plan,
                    tool="shim/np-train", env=env)


def ranks(trial):
    """The same bits by the processes of an MPI job, on processors and on the shim's GPUs."""
    r, recipe = trial.random("ranks"), trial.recipe
    for i in range(2):
        gpu = odds(r, 0.4) and trial.gpus
        count = plans.replicas(r, recipe) if odds(r, 0.5) else 1
        plan = plans.pipeline(r, recipe, count, stages=r.randint(1, min(5, recipe.positions)),
                              threads=not gpu, cut=count == 1)
        how = {"ranks": count * r.randint(1, max(1, 4 // count))}
        if gpu:
            how |= {"tool": "shim/np-train", "env": {"SHIM_SEED": str(r.randint(1, 999)),
                                                     "SHIM_DEVICES": str(r.randint(1, 4))}}
        if odds(r, 0.4) and not gpu:  # np-partition knows nothing of ranks, which take more
            least = least_memory(trial, *plan) * (5 if count == 1 else 8) // 4
            plan += ["--device-memory", str(least + r.randrange(100000)),
                     *(plans.residence(r) if count == 1 else [])]
        trial.equal(f"ranks{i}", "--backend", "mpi-cuda" if gpu else "mpi", *plan,
                    *([] if gpu else plans.manner(r, trial)), **how)

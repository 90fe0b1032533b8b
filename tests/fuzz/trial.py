"""One recipe in a folder of its own: runs the tools there, keeps what was run, compares runs."""

import collections
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import threading

from recipes import Recipe

SECONDS = 120  # after these a tool hangs
TOOLS = ["np-train", "np-partition", "np-predict-trace", "np-verify"]
MEMORY = 8 << 30  # what a tool may ask for, but under sanitizers, which ask for all there is
# What begins with another run's weights says so before.
ONE_ERROR = re.compile(r"(np-train: \d+ of \d+ layers begin [^\n]+\n)?np-[a-z-]+: error: [^\n]+\n")
PROBLEMS = re.compile(r"(np-verify: [^\n]+\n)*")
# What Open MPI is told: there may be more processes than processors, and root's.
LAUNCH = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
          "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
SANITIZER = "exitcode=99:allocator_may_return_null=1:max_allocation_size_mb=4096"
SANITIZERS = {name: SANITIZER for name in ["ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"]}
LAUNCH["ASAN_OPTIONS"] = SANITIZER + ":detect_leaks=0"  # MPI never frees some things


class Failure(Exception):
    pass


Result = collections.namedtuple("Result", "code out err")


def _limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


class Trial:
    def __init__(self, seed, folder, tools, counts):
        self.seed, self.folder, self.tools, self.counts = seed, folder, tools, counts
        self.log = []  # of commands, with exit codes
        self.news, self.finite = {}, {}  # how references ended
        self.recipe = Recipe(self.random("recipe"), folder)
        r = self.random("evaluation")
        self.evaluated = ["--eval-every", r.choice("12"), "--eval-subnets", "2", "--eval-batches",
                          "2"] if r.random() < 0.35 else []
        self.env = dict(os.environ, LC_ALL="C", XDG_CACHE_HOME=folder) | SANITIZERS
        with open(os.path.join(tools, "flags"), encoding="utf-8") as flags:
            self.limit = None if "-fsanitize" in flags.read() else _limit
        version = self.run("np-train", "--version").out
        self.isas = re.search("instruction sets: (.*)", version).group(1).split()
        self.gpus = os.path.exists(os.path.join(tools, "shim", "np-train"))
        self.ranks = bool(re.search("MPI: [^n]", version) and shutil.which("mpiexec"))

    def random(self, purpose):
        """Random numbers that are the same for the seed, whatever else is done with it."""
        return random.Random(f"{self.seed} {purpose}")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def read(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)

    def fail(self, what, text=""):
        raise Failure(f"{what}\n{text[-3000:]}".strip())

    # --- running

    def start(self, *command, env=None, ranks=0, stdin=subprocess.DEVNULL):
        """Begins a command, or so many ranks of it; what hangs is killed, so that reading ends."""
        env = env or {}
        launch = ["mpiexec", "-n", str(ranks)] if ranks else []
        limited = command[0] in TOOLS and not ranks
        self.counts["runs"] += 1
        self.log.append(" ".join([*(f"{name}={env[name]}" for name in env), *launch, *command]))
        said = tempfile.TemporaryFile("w+", errors="backslashreplace")
        process = subprocess.Popen(
            [*launch, os.path.join(self.tools, command[0]), *command[1:]], cwd=self.folder,
            env=self.env | env | (LAUNCH if ranks else {}), stdin=stdin, stdout=subprocess.PIPE,
            stderr=said, text=True, errors="backslashreplace",
            preexec_fn=self.limit if limited else None)
        process.said, process.launched = said, ranks > 0
        process.alarm = threading.Timer(SECONDS, process.kill)
        process.alarm.start()
        return process

    def end(self, process, allowed):
        """Awaits the end of what was started; how it ends and what it says must fit."""
        with process:
            out = process.stdout.read()
        hung = not process.alarm.is_alive()
        process.alarm.cancel()
        process.said.seek(0)
        with process.said as said:
            err = said.read()
        if process.launched:  # the launcher has more to say of it
            err = "".join(re.findall(r"^np-[^\n]+\n", err, re.MULTILINE))
        code = process.returncode
        self.log[-1] += f"  # {code}"
        if hung:
            self.fail(f"hangs for {SECONDS} s", err)
        if code not in allowed:
            self.fail(f"exit {code}, not in {allowed}", err)
        answers = code == 1 and process.args[0].endswith("np-verify")
        if code in (1, 2) and not (PROBLEMS if answers else ONE_ERROR).fullmatch(err):
            self.fail(f"exit {code}, and not one line of error", err)
        return Result(code, out, err)

    def give(self, process, text):
        """Writes to its standard input, if it is still there to read it."""
        try:
            process.stdin.write(text)
            process.stdin.flush()
        except BrokenPipeError:
            pass

    def run(self, *command, allowed=(0,), text=None, **how):
        if text is None:
            return self.end(self.start(*command, **how), allowed)
        process = self.start(*command, stdin=subprocess.PIPE, **how)
        self.give(process, text)
        process.stdin.close()
        return self.end(process, allowed)

    def train(self, name, *options, tool="np-train", recipe="recipe.yaml", **how):
        return self.run(tool, recipe, "--run", name, *options, **how)

    def signalled(self, name, steps, what, *options):
        """Trains, and sends a signal when so many steps have ended."""
        process = self.start("np-train", "recipe.yaml", "--run", name, "--losses", "-", *options)
        for _ in range(steps):
            process.stdout.readline()
        process.send_signal(what)
        self.end(process, (0, -what) if what == signal.SIGKILL else (0, 75))

    # --- comparing

    def reference(self, name, *options, **how):
        """Trains by the sequential program, to its end or to a value that is not finite."""
        news = self.train(name, "--schedule", "sequential", "--ledger", "layers", "--losses",
                          f"{name}.losses", *self.evaluated, *options, allowed=(0, 1), **how)
        if news.code == 1 and "is not finite" not in news.err:
            self.fail("not what a reference may say", news.err)
        self.news[name], self.finite[name] = news, news.code == 0
        self.counts["not finite"] += news.code

    def same_file(self, a, b):
        if self.read(a) != self.read(b):
            self.fail(f"{a} is not {b}")

    def same(self, a, b):
        """Both runs have the same bits."""
        self.run("np-verify", a, b)
        self.run("np-verify", "--fsck", b)
        self.same_file(f"{a}/ledger.tsv", f"{b}/ledger.tsv")
        self.same_file(f"{a}/layers.tsv", f"{b}/layers.tsv")
        for checkpoint in glob.glob(self.path(a, "checkpoints", "*")):
            name = os.path.basename(checkpoint)
            self.same_file(f"{a}/checkpoints/{name}", f"{b}/checkpoints/{name}")

    def evaluations(self, name):
        lines = [json.loads(line) for line in self.read(name, "metrics.jsonl").splitlines()]
        return [(line["step"], line["valid_loss"], line["subnets"], line["accuracies"])
                for line in lines if "valid_loss" in line]

    def equal(self, name, *options, ref="ref", **how):
        """Trains by a plan: everything is as in the reference, or goes wrong in the same words."""
        news = self.news[ref]
        result = self.train(name, "--ledger", "layers", "--losses", f"{name}.losses",
                            *self.evaluated, *options, allowed=(news.code,), **how)
        self.counts["plans"] += 1
        if not self.finite[ref]:
            if result.err != news.err:
                self.fail("other news than the reference's", f"{result.err}{news.err}")
            return
        self.same(ref, name)
        self.same_file(f"{ref}.losses", f"{name}.losses")
        if self.evaluations(ref) != self.evaluations(name):
            self.fail(f"evaluations of {ref} and {name} differ")

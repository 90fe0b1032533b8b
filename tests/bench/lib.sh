# Sourced by the scripts here, which run from the top of the tree.
# shellcheck shell=sh disable=SC2034 # what is set here is used there
build=${NP_BUILD:-build}
data=${NP_TEST_DATA:-../shared/data}
python=${NP_PEER_PYTHON:-python3}
runs=${NP_BENCH_RUNS:-3}
PATH=$(cd "$build" && pwd):$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work" # costs are of this build, not of one that was measured before

# row NAME VALUE UNIT [RATIO REFERENCE]: one line, see row.h.
row() {
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "${4:-}" "${5:-}"
}

skipped() {
    echo "# SKIPPED: $*"
}

# A / B, and other arithmetic.
calc() {
    awk "BEGIN { printf \"%.4g\", $* }"
}

# The median of numbers on standard input.
median() {
    sort -g | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# The least of numbers on standard input.
least() {
    sort -g | head -n 1
}

# train_run RECIPE OPTION...: a run in $work/run.
train_run() {
    rm -rf "$work/run"
    np-train "$@" --run "$work/run" -q > "$work/out" 2> "$work/err" ||
        { cat "$work/err" >&2; return 1; }
}

# The seconds that had gone by at the end of each step of the run in $work/run.
run_steps() {
    sed -n 's/.*"time":\([0-9.]*\),"loss.*/\1/p' "$work/run/metrics.jsonl"
}

# run_ms [PART]: milliseconds that the run in $work/run took a step, without its first PART (a
# quarter), in which layers come into being, and its last steps, when the pipeline runs empty.
run_ms() {
    run_steps |
        awk -v part="${1:-0.25}" '{ t[NR] = $1 } END { n = int(NR * part); m = NR - 4
                                  print 1000 * (t[m] - t[n]) / (m - n) }'
}

# step_ms RECIPE OPTION...: run_ms of a run that is not kept.
step_ms() {
    train_run "$@"
    run_ms
    rm -rf "$work/run"
}

# keep_steps NAME [FILE]: the run in $work/run, or what FILE has as run_steps prints it, is one of
# those that quiet_ms NAME looks at.
keep_steps() {
    kept=$work/steps.$1.$(find "$work" -name "steps.$1.*" | wc -l)
    if [ $# -gt 1 ]; then cp "$2" "$kept"; else run_steps > "$kept"; fi
}

# peer NAME COMMAND...: the run of a peer that keeps notes (peers/notes.py), kept as NAME, too. The
# subnets that it trained are in $work/notes.subnets; 1, and why in $work/err, if it did not.
peer() {
    peer_name=$1
    shift
    "$python" "$@" --notes "$work/notes" > "$work/peer" 2> "$work/err" || return 1
    keep_steps "$peer_name" "$work/notes.steps"
}

# quiet_ms NAME [PART]: milliseconds a step, as run_ms, but without the first PART if that is given,
# put together from the runs kept as NAME, which did the same work: of every half second, the run
# that had it done first. What else a machine does for a while makes a run slower, and nothing makes
# it faster.
quiet_ms() {
    awk -v half=0.5 -v part="${2:-0.25}" '
        FNR == 1 { runs++ }
        { t[runs, FNR] = $1; n = FNR }
        END {
            first = int(n * part)
            last = n - 4
            window = int(half * (last - first) / (t[1, last] - t[1, first])) + 1
            for (a = first; a < last; a = b) {
                b = a + 2 * window > last ? last : a + window
                least = t[1, b] - t[1, a]
                for (k = 2; k <= runs; k++)
                    if (t[k, b] - t[k, a] < least)
                        least = t[k, b] - t[k, a]
                total += least
            }
            print 1000 * total / (last - first)
        }' "$work/steps.$1".*
}

# said_ms RECIPE PLAN STEPS [PART [OPTION...]]: what is predicted for the steps that run_ms counts,
# or quiet_ms with that PART.
said_ms() {
    said_recipe=$1 said_plan=$2 said_steps=$3 said_first=$(calc "int($3 * ${4:-0.25} + 0.5)")
    shift $(($# < 4 ? $# : 4))
    for n in "$said_steps" "$said_first"; do
        np-predict-trace "$said_recipe" --plan "$said_plan" --steps "$n" "$@" |
            awk -F'\t' '$1 == "makespan" { print $2 / 1e6 }'
    done | awk -v n=$((said_steps - said_first)) '{ t[NR] = $1 } END { print (t[1] - t[2]) / n }'
}

# A text to train on: Shakespeare where it is, else this project's own.
write_corpus() {
    if [ -r "$data/tinyshakespeare.txt" ]; then
        cat "$data/tinyshakespeare.txt"
    else
        cat libcore/*/*.c libcore/*/*.h
    fi > "$1"
}

# write_wide FILE STEPS: the recipe peer.yaml with 24 candidates a block; its text is corpus.txt.
write_wide() {
    {
        sed '/{op:/,$d' tests/bench/peer.yaml
        for _ in 1 2 3; do
            sed -n '/{op:/p' tests/bench/peer.yaml
        done
        sed -n '/^train:/,$p' tests/bench/peer.yaml | sed "s/steps: .*/steps: $2/"
    } > "$1"
}

# The data of the recipes in examples/, under the names that they give, in $work; images=yes if
# there are images.
write_inputs() {
    images=
    data=$(cd "$data" 2> /dev/null && pwd) || data=/nowhere
    write_corpus "$work/corpus.txt"
    seq 100000 | awk '{ for (i = length($0); i > 0; i--) printf "%s", substr($0, i, 1)
                        print "\t" $0 }' > "$work/pairs.tsv"
    [ -r "$data/cifar10/data_batch_1.bin" ] && [ -r "$data/mnist/train-images-idx3-ubyte" ] ||
        return 0
    images=yes
    for i in 1 2 3 4 5; do
        ln -s "$data/cifar10/data_batch_1.bin" "$work/data_batch_$i.bin"
    done
    ln -s "$data/cifar10/test_batch.bin" "$data"/mnist/*-ubyte "$work"
}

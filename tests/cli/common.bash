# What the command-line tests share: the tools' place, a fresh directory per test, a small recipe.
export LC_ALL=C
NP_TREE=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
NP_BIN=$(cd "${NP_BIN:-$NP_TREE/build}" && pwd)
NP_TEST_DATA=${NP_TEST_DATA:-$NP_TREE/../shared/data}
PATH=$NP_BIN:$PATH

fresh_directory() {
    cd "$BATS_TEST_TMPDIR" || return 1
    export XDG_CACHE_HOME=$BATS_TEST_TMPDIR
}

# Whether MPI's processes can be started. Open MPI is told that there may be more of them than
# processors, and root's; MPICH has no such doubts. There are things that MPI never frees.
has_ranks() {
    export ASAN_OPTIONS=detect_leaks=0
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    np-train --version | grep -q 'MPI: [^n]' && command -v mpiexec > /dev/null
}

# Two hosts on this machine, 10.77.0.1 and 10.77.0.2: network namespaces that a cable joins, between
# which Open MPI has nothing but TCP. Takes root; false where that, or Open MPI, is missing.
make_hosts() {
    local address
    export NP_HOSTS=np-$$
    export OMPI_MCA_plm_rsh_agent=$NP_TREE/tests/cli/on-host
    mpiexec --version | grep -Eq 'Open MPI|OpenRTE' || return 1
    for address in 10.77.0.1 10.77.0.2; do
        ip netns add "$NP_HOSTS-$address" && unshare --uts --mount true || return 1
        ip -n "$NP_HOSTS-$address" link set lo up
    done
    ip -n "$NP_HOSTS-10.77.0.1" link add cable type veth peer name cable \
        netns "$NP_HOSTS-10.77.0.2" || return 1
    for address in 10.77.0.1 10.77.0.2; do
        ip -n "$NP_HOSTS-$address" addr add "$address/24" dev cable
        ip -n "$NP_HOSTS-$address" link set cable up
    done
}

# What is left of them goes, with whatever runs there.
remove_hosts() {
    local address
    for address in 10.77.0.1 10.77.0.2; do
        end_host "$address" 2> /dev/null || true
        ip netns del "$NP_HOSTS-$address" 2> /dev/null || true
    done
}

# A host loses its power.
end_host() {
    ip netns pids "$NP_HOSTS-$1" | xargs -r kill -KILL
}

# other_user COMMAND...: as a user of this test's own, without rights. Takes root.
other_user() {
    local user=$((50000 + $$ % 10000))
    setpriv --reuid $user --regid $user --clear-groups "$@"
}

# One of the processors that this process may use; and whether a container's quota leaves fewer than
# those, of which nproc does not know.
first_processor() {
    taskset -cp $$ | sed 's/.*: //; s/[,-].*//'
}
has_quota() {
    grep -qs '^[1-9]' /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us
}

# some FULL FEW: what is tried; few under the sanitizers (NP_TEST_FULL=0).
some() {
    if [ "${NP_TEST_FULL:-1}" = 1 ]; then echo "$1"; else echo "$2"; fi
}

# unsanitized: leaves out a test under the sanitizers, where others take the same ways.
unsanitized() {
    [ "${NP_TEST_FULL:-1}" = 1 ] || skip 'sanitized, others take the same ways'
}

# The first line that the tool said on standard error, after its name and "error: ".
said() {
    [ "${lines[0]}" = "$1" ] || { printf 'said: %s\nnot:  %s\n' "${lines[0]}" "$1"; return 1; }
}

# declined TEXT COMMAND...: fails with exit code 2 and a message that has TEXT, of the tool that the
# file of tests is named after.
declined() {
    run "${@:2}"
    [ "$status" -eq 2 ]
    [[ "$output" = *"$(basename "$BATS_TEST_FILENAME" .bats): "*"$1"* ]]
}

# least_of OPTION...: the bytes that np-partition says the stages of r.yaml need at least.
least_of() {
    run np-partition r.yaml --profile-from model --device-memory 4KiB "$@"
    [ "$status" -eq 1 ] || return 1 # also where it is called inside of $( )
    sed -n 's/.*needs at least \([0-9]*\) bytes.*/\1/p' <<< "${lines[0]}" | grep .
}

# value KEY: of a summary in $output.
value() {
    printf '%s\n' "$output" | awk -F '\t' -v key="$1" '
        $1 == key { print $2; there = 1 }
        END { if (!there) print "no " key }'
}

# lacks TEXT FILE (bats does not see a command fail behind `!`)
lacks() {
    if grep -qi -e "$1" "$2"; then echo "'$1' is in $2"; return 1; fi
}

# between LOW X HIGH
between() {
    awk -v a="$1" -v x="$2" -v b="$3" 'BEGIN { exit !(x != "" && a <= x && x <= b) }' ||
        { echo "$2 is not in $1 .. $3"; return 1; }
}

small_recipe() {
    seq 1 2000 > corpus.txt
    cat > r.yaml <<'YAML'
naspipe: recipe/1
seed: 7
numerics: portable/1
data:
  train: {kind: bytes, files: [corpus.txt]}
space:
  input: {kind: tokens, vocab: 256, length: 16}
  width: 32
  stem: {op: embedding, positions: learned}
  blocks:
    - repeat: 6
      choices:
        - {op: mha, heads: 2}
        - {op: ffn, ratio: 2, act: gelu}
        - {op: identity}
  head: {op: lm}
shared: {policy: delay, steps: 2}
sampler: {kind: uniform, members: 1}
train:
  steps: 20
  batch: 8
  grain: 1
  optimizer: {kind: adamw, lr: 1.0e-3}
YAML
}

# A recipe that trains in a few milliseconds, with validation data: recipe.yaml and corpus.txt.
tiny_recipe() {
    seq 1 1000 > corpus.txt
    cat > recipe.yaml <<'YAML'
naspipe: recipe/1
seed: 7
data:
  train: {kind: bytes, files: [corpus.txt], part: [0.0, 0.9]}
  valid: {kind: bytes, files: [corpus.txt], part: [0.9, 1.0]}
space:
  input: {kind: tokens, vocab: 256, length: 8}
  width: 16
  blocks:
    - repeat: 4
      choices:
        - {op: mha, heads: 2}
        - {op: ffn, ratio: 2, dropout: 0.1}
        - {op: conv1d, kernel: 3}
        - {op: identity}
train:
  steps: 6
  batch: 4
YAML
}

# A recipe of images whose shapes change, with batch norm: recipe.yaml, images.idx, labels.idx.
image_recipe() {
    { printf '\0\0\10\3\0\0\0\50\0\0\0\10\0\0\0\10'; seq 1 2000 | head -c 2560; } > images.idx
    printf '\0\0\10\1\0\0\0\50' > labels.idx
    for ((i = 0; i < 40; i++)); do byte $((i * 7 % 4)); done >> labels.idx
    cat > recipe.yaml <<'YAML'
naspipe: recipe/1
seed: 7
data:
  train: {kind: idx, files: [images.idx, labels.idx], part: [0.0, 0.8], crop: 1, flip: true}
  valid: {kind: idx, files: [images.idx, labels.idx], part: [0.8, 1.0]}
space:
  input: {kind: images, height: 8, width: 8, channels: 1, classes: 4}
  width: 8
  blocks:
    - repeat: 2
      choices:
        - {op: conv2d, kernel: 3}
        - {op: mbconv, kernel: 3, expand: 2}
        - {op: max_pool}
        - {op: identity}
    - repeat: 1
      cell: 3
      choices:
        - {op: zero}
        - {op: identity}
        - {op: sepconv, kernel: 3}
    - repeat: 2
      out: 16
      stride: 2
      choices:
        - {op: resnet_basic}
        - {op: conv2d, kernel: 3}
  head: {op: classifier}
train:
  steps: 6
  batch: 4
  grain: 1
  optimizer: {kind: sgd, lr: 0.05}
  calibration: 2
YAML
}

# An encoder and a decoder, with validation data: recipe.yaml and pairs.tsv.
pairs_recipe() {
    for ((i = 0; i < 40; i++)); do printf '%d\t%d\n' $((i * 977)) $((i * 1954)); done > pairs.tsv
    cat > recipe.yaml <<'YAML'
naspipe: recipe/1
seed: 7
data:
  train: {kind: pairs, files: [pairs.tsv], part: [0.0, 0.9]}
  valid: {kind: pairs, files: [pairs.tsv], part: [0.9, 1.0]}
space:
  input: {kind: pairs, vocab: 256, source_length: 6, length: 8, padding: masked}
  width: 16
  blocks:
    - name: encoder
      repeat: 2
      choices:
        - {op: mha, heads: 2, mask: none}
        - {op: ffn, ratio: 2}
    - choices:
        - {op: embedding}
    - repeat: 3
      choices:
        - {op: mha, heads: 2, memory: encoder}
        - {op: mha, heads: 2, dropout: 0.1}
        - {op: identity}
train:
  steps: 6
  batch: 4
  grain: 1
YAML
}

# Every path below the current directory, to see that nothing was left behind.
tree() {
    find . | sort
}

# refused MESSAGE COMMAND...: exit 2, the one line of error, nothing on standard output, nothing
# left behind.
refused() {
    local want=$1 before code=0 out
    shift
    before=$(tree)
    out=$("$@" 2> "$BATS_TEST_TMPDIR.said") || code=$?
    if [ "$code" -ne 2 ] || [ -n "$out" ] ||
        [ "$(cat "$BATS_TEST_TMPDIR.said")" != "$1: error: $want" ]; then
        printf 'exit %s\nsaid: %s\nnot:  %s: error: %s\n' "$code" \
            "$(cat "$BATS_TEST_TMPDIR.said")" "$1" "$want"
        return 1
    fi
    [ "$before" = "$(tree)" ] || { echo 'left behind:'; diff <(echo "$before") <(tree); return 1; }
}

# The digest of a run, from its latest manifest.
digest_of() {
    sha256sum "$(ls "$1"/checkpoints/*.manifest | tail -n 1)" | cut -c 1-64
}

# ends_with CODE COMMAND...: with this exit status.
ends_with() {
    local wanted=$1 code=0
    shift
    "$@" || code=$?
    [ "$code" -eq "$wanted" ]
}

# gives FILE COMMAND...: the command succeeds, and prints what is in the file.
gives() {
    local file=$1
    shift
    "$@" > "$BATS_TEST_TMPDIR.given" && cmp "$BATS_TEST_TMPDIR.given" "$file"
}

# same A B: the runs are equal: weights, ledgers, the products of fast numerics, the norms of their
# gradients, and what their subnets were found to be worth where both evaluate.
same() {
    np-verify "$1" "$2" > /dev/null && [ "$(digest_of "$1")" = "$(digest_of "$2")" ] || return 1
    cmp "$1/ledger.tsv" "$2/ledger.tsv" && cmp "$1/recipe.yaml" "$2/recipe.yaml" || return 1
    [ ! -e "$1/products.txt" ] && [ ! -e "$2/products.txt" ] ||
        cmp "$1/products.txt" "$2/products.txt" || return 1
    same_norms "$1" "$2" || return 1
    case "$(evaluates "$1") $(evaluates "$2")" in
    'true true') same_scores "$1" "$2" ;;
    'true false' | 'false true' | 'false false') ;;
    *) return 1 ;;
    esac
}

# Of the steps that both have; a run that was killed may not have written those of the last ones.
same_norms() {
    local first second
    first=$(norms "$1") && second=$(norms "$2") || return 1
    [ -z "$first$second" ] ||
        join <(sort -u <<< "$first") <(sort -u <<< "$second") |
        awk '$2 != $3 { bad = 1 } END { exit bad || !NR }'
}

norms() {
    jq -r 'select(has("grad_norm")) | "\(.step) \(.grad_norm)"' "$1/metrics.jsonl"
}

evaluates() {
    jq '.argv | any(. == "--eval-every")' "$1/run.json"
}

# Of the steps that both have evaluated; a run that is stopped evaluates where it stops, too.
same_scores() {
    join <(scores "$1") <(scores "$2") | awk '$2 != $3 { bad = 1 } END { exit bad || !NR }'
}

scores() {
    jq -r 'select(has("valid_loss")) | "\(.step) \(del(.time) | tojson)"' "$1/metrics.jsonl" | sort -u
}

# byte N: one byte.
byte() {
    # shellcheck disable=SC2059 # the octal escape is the format
    printf "\\$(printf %03o "$1")"
}

# flip FILE OFFSET: one bit of one byte (a negative offset counts from the end).
flip() {
    local size offset=$2 byte
    size=$(stat -c %s "$1")
    [ "$offset" -ge 0 ] || offset=$((size + offset))
    byte=$(od -An -tu1 -j "$offset" -N 1 "$1")
    chmod u+w "$1"
    byte $((byte ^ 1)) |
        dd of="$1" bs=1 seek="$offset" conv=notrunc status=none
}

# examples MANUAL: runs the literal blocks of its EXAMPLES, with recipe.yaml in the directory.
examples() {
    sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/p' "$NP_TREE/man/$1" |
        sed -n '/^\.Bd/,/^\.Ed/{/^\./!p}' > examples.sh
    [ -s examples.sh ] && bash -e -o pipefail examples.sh
}

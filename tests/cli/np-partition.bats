#!/usr/bin/env bats
# np-partition: plans that other tools read, and refusals that say why.

load common

setup() {
    fresh_directory
    small_recipe
}

@test "writes a plan on standard output that np-predict-trace reads" {
    run np-partition r.yaml -n 3 --profile-from model
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "naspipe: plan/1" ]
    [ "$(grep -c 'memory_bytes' <<< "$output")" -eq 3 ]
    printf '%s\n' "$output" > plan.yaml
    run np-predict-trace r.yaml --plan plan.yaml
    [ "$status" -eq 0 ]
    [ "$(value stages)" = 3 ]
}

@test "takes what is given" {
    run np-partition r.yaml -n 2 -M 4 -W 3 --unit 2 --threads 2 --profile-from model
    [ "$status" -eq 0 ]
    [ "${lines[2]}" = "micro_batches: 4" ]
    [ "${lines[3]}" = "window: 3" ]
    [ "${lines[5]}" = "unit: 2" ]
    [ "${lines[6]}" = "threads: 2" ]
}

@test "the modelled plan is the same every time, whatever number of threads searches it" {
    local one
    one=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
    np-partition r.yaml --devices 8 --profile-from model -v > a.yaml 2> a.table
    [ "$(wc -l < a.table)" -gt 20 ]
    for _ in 1 2 3; do
        np-partition r.yaml --devices 8 --profile-from model -v > b.yaml 2> b.table
        cmp a.yaml b.yaml
        cmp a.table b.table
    done
    taskset -c "$one" np-partition r.yaml --devices 8 --profile-from model -v > b.yaml 2> b.table
    cmp a.yaml b.yaml
    cmp a.table b.table
}

@test "on a terminal: which alternative is searched, erased at the end; none with -q" {
    command -v script > /dev/null || skip "no script to make a terminal"
    export TERM=vt100
    local search="np-partition r.yaml --devices 8 --profile-from model -o p.yaml"
    script -qec "$search" /dev/null < /dev/null > typed
    grep -q 'searching the best plan (1/[1-9]' typed
    [ "$(sed 's/.*\r\x1b\[K//' typed | grep -c searching)" -eq 0 ]
    script -qec "$search -q" /dev/null < /dev/null > typed
    [ ! -s typed ]
}

@test "measures once, then takes the costs from the cache" {
    np-partition r.yaml -n 2 -M 2 -o a.yaml
    [ -s naspipe/profile.tsv ]
    grep -q 'from: measured' a.yaml
    np-partition r.yaml -n 2 -M 2 -o b.yaml
    cmp a.yaml b.yaml
    known=$(wc -l < naspipe/profile.tsv)
    np-partition r.yaml -n 2 -M 2 -q --set 'train.clip={kind: value, limit: 1}' -o c.yaml
    [ "$(wc -l < naspipe/profile.tsv)" -eq "$known" ] # which no pass over the gradients needs
    np-partition r.yaml -n 2 -M 2 -q --set 'train.clip={kind: layer, limit: 1}' -o c.yaml
    [ "$(wc -l < naspipe/profile.tsv)" -eq $((2 * known)) ]
    grep -q "^$(cat "$NP_BIN/sources")-" naspipe/profile.tsv # other sources, other times
}

@test "what was measured before an interrupt is not measured again" {
    local measure=(np-partition r.yaml --devices 2 --replicas 1 -n 2 --threads 1 -M 2 -q -o)
    "${measure[@]}" whole.yaml
    known=$(wc -l < naspipe/profile.tsv)
    [ "$(cut -f 6 naspipe/profile.tsv | sort -u)" = 3 ] # rounds
    awk -F '\t' -v OFS='\t' '{ $3 = $4 = $5 = 1; $6 = 2; print }' naspipe/profile.tsv > two
    cp two naspipe/profile.tsv
    "${measure[@]}" again.yaml # the third
    awk -F '\t' '$3 + $4 + $5 > 3 || $6 != 3 { exit 1 }' naspipe/profile.tsv # identity takes 0
    [ "$(wc -l < naspipe/profile.tsv)" -eq "$known" ]
    rm -r naspipe
    "${measure[@]}" again.yaml &
    pid=$!
    until [ -s naspipe/profile.tsv ]; do kill -0 $pid; done
    kill -s TERM $pid
    code=0
    wait $pid || code=$?
    [ "$code" -eq 143 ] || [ "$code" -eq 0 ] # it may have been quicker
    [ "$(wc -l < naspipe/profile.tsv)" -eq "$known" ]
    "${measure[@]}" again.yaml
    [ "$(wc -l < naspipe/profile.tsv)" -eq "$known" ]
    [ "$(cut -f 6 naspipe/profile.tsv | sort -u)" = 3 ]
    # nor is what another recipe has measured, which lacks one of the kinds
    sed 1d naspipe/profile.tsv > less
    cp less naspipe/profile.tsv
    "${measure[@]}" again.yaml &
    pid=$!
    until [ "$(wc -l < naspipe/profile.tsv)" -eq "$known" ]; do kill -0 $pid; done
    kill -s TERM $pid
    code=0
    wait $pid || code=$?
    [ "$code" -eq 143 ] || [ "$code" -eq 0 ] # it may have been quicker
    [ "$(sed 1d naspipe/profile.tsv | cut -f 6 | sort -u)" = 3 ]
}

@test "costs that others store meanwhile stay in the cache" {
    unsanitized
    for width in 16 24 32 40 48 56; do
        np-partition r.yaml -n 2 --set space.width=$width -o $width.yaml &
        jobs+=" $!"
    done
    for job in $jobs; do
        wait "$job"
    done
    [ "$(cut -f 1 naspipe/profile.tsv | grep -o 'width=[0-9]*' | sort -u | wc -l)" -eq 6 ]
    [ "$(cut -f 1 naspipe/profile.tsv | sort | uniq -c | awk '{ print $1 }' | sort -u | wc -l)" -eq 1 ]
}

@test "a damaged cache is passed over" {
    mkdir naspipe
    seq 1 900 | head -c 3000 > naspipe/profile.tsv
    run np-partition r.yaml -n 1 -M 1 -q
    [ "$status" -eq 0 ]
    known=$(wc -l < naspipe/profile.tsv)
    cut -c 1-200 naspipe/profile.tsv > cut
    mv cut naspipe/profile.tsv
    np-partition r.yaml -n 1 -M 1 -q -o plan.yaml
    [ "$(wc -l < naspipe/profile.tsv)" -ge "$known" ]
}

@test "a cache that is no file, or held by another, is done without" {
    unsanitized
    mkdir naspipe
    mkfifo naspipe/profile.tsv
    timeout 60 np-partition r.yaml -n 1 -M 1 -q -o plan.yaml
    [ -f naspipe/profile.tsv ]
    known=$(wc -l < naspipe/profile.tsv)
    echo cut > naspipe/.np-7-0 # what one left that was killed
    exec 8< naspipe
    flock 8
    timeout 60 np-partition r.yaml -n 1 -M 2 -q -o plan.yaml 8<&-
    [ "$(wc -l < naspipe/profile.tsv)" -eq "$known" ]
    exec 8<&-
    np-partition r.yaml -n 1 -M 2 -q -o plan.yaml
    [ "$(wc -l < naspipe/profile.tsv)" -gt "$known" ]
    [ ! -e naspipe/.np-7-0 ]
}

@test "measures every instruction set of this machine" {
    unsanitized
    for isa in $(np-partition --version | sed -n 's/^instruction sets: //p'); do
        run np-partition r.yaml -n 1 -M 8 --isa "$isa" -q
        [ "$status" -eq 0 ]
        known=${known:-$(wc -l < naspipe/profile.tsv)}
        sets=$((sets + 1))
        [ "$(wc -l < naspipe/profile.tsv)" -eq $((sets * known)) ]
    done
}

@test "-v shows the alternatives and the stages on standard error" {
    np-partition r.yaml --devices 6 --profile-from model -v > plan.yaml 2> table
    awk '/^[* ] +[0-9]/ { sub(/^[* ] */, ""); print $1 * $2 * $3 }' table | sort -n | uniq -c > sizes
    [ "$(tr -s ' \n' ' ' < sizes)" = " 1 1 2 4 19 6 " ]
    [ "$(grep -c '^\*' table)" -eq 1 ]
    read -r _ replicas stages threads micro _ window unit _ < <(grep '^\*' table)
    [ "$(grep -c first: plan.yaml)" = "$stages" ]
    [ "$replicas" = 1 ] || grep -qx "replicas: $replicas" plan.yaml
    grep -qx "threads: $threads" plan.yaml
    grep -qx "micro_batches: $micro" plan.yaml
    grep -qx "window: $window" plan.yaml
    grep -qx "unit: $unit" plan.yaml
    grep -q '^stage ' table
    grep -q 'modelled costs' table
    lacks busy plan.yaml
    np-partition r.yaml -n 2 --profile-from model -v -q > /dev/null 2> table
    [ ! -s table ]
}

@test "no more threads are measured than may be used" {
    np-partition r.yaml --devices 4096 -M 4 -v > plan.yaml 2> table
    awk '/^[* ] +[0-9]/ { sub(/^[* ] */, ""); print $3 }' table | sort -n | tail -n 1 > most
    [ "$(cat most)" -eq "$(nproc)" ] || has_quota
}

@test "only processors that may be used are planned for" {
    np-partition r.yaml --profile-from model --devices 1 -o one.yaml
    taskset -c "$(first_processor)" np-partition r.yaml --profile-from model -o bound.yaml
    cmp one.yaml bound.yaml
    np-partition r.yaml --profile-from model --devices "$(nproc)" -o all.yaml
    np-partition r.yaml --profile-from model -o free.yaml
    cmp all.yaml free.yaml || has_quota
}

@test "a value of the recipe can be set" {
    np-partition r.yaml -n 1 -M 4 --set train.grain=2 --profile-from model > plan.yaml
    run np-partition r.yaml -n 1 -M 8 --set train.grain=2 --profile-from model
    [ "$status" -eq 2 ]
    said "np-partition: error: micro-batches must divide 4, the grains of a mini-batch (batch 8, grain 2), and 8 does not"
}

@test "exit 1 when nothing fits in memory, with the least that would do" {
    run np-partition r.yaml -n 2 --profile-from model --device-memory 64KiB
    [ "$status" -eq 1 ]
    [[ "${lines[0]}" == "np-partition: error: nothing fits: the largest of 2 stages needs at least "*" bytes ("*"), more than 64 KiB" ]]
    run np-partition r.yaml -n 2 --profile-from model --device-memory 64MiB
    [ "$status" -eq 0 ]
}

@test "the least takes what a stage has beside its positions into account" {
    pairs_recipe
    cat > r.yaml <<'YAML'
naspipe: recipe/1
data: {train: {kind: pairs, files: [pairs.tsv], part: [0.0, 0.7]}}
space:
  input: {kind: pairs, vocab: 256, length: 1, source_length: 31}
  width: 48
  stem: {op: embedding, positions: none}
  blocks:
    - choices: [{op: mha, heads: 1}]
    - choices: [{op: conv1d, kernel: 16}]
    - choices: [{op: embedding}]
  head: {op: lm}
train: {steps: 5, batch: 1}
YAML
    options=(-n 3 -M 1 -W 1 --cut static)
    least=$(least_of "${options[@]}")
    np-partition r.yaml "${options[@]}" --profile-from model --device-memory "$least" > plan.yaml
    for less in 1 16384 65536; do # it was told 55 KB too much
        run np-partition r.yaml "${options[@]}" --profile-from model --device-memory $((least - less))
        [ "$status" -eq 1 ]
    done
    np-partition --max-batch r.yaml "${options[@]}" --device-memory "$least" | grep 'train.batch=1 '
}

@test "the least is that of the best cut, also where stages have much beside their positions" {
    "$NP_TREE/tests/write-inputs" 9 6 5
    for case in 'slices 2 3506176' 'pairs 4 3428352'; do # by trying all cuts
        read -r recipe micro least <<< "$case"
        sed 's/, padding: masked//' "$NP_TREE/tests/recipes/$recipe.yaml" > r.yaml
        [ "$(least_of -n 3 -M "$micro" -W 1 --threads 1 --replicas 1 --cut static \
            --recompute never)" = "$least" ]
    done
}

@test "the least of all alternatives does, and one byte less does not" {
    least=$(least_of --devices 4)
    for pipeline in '1 1' '1 4' '2 2' '4 1'; do
        read -r stages threads <<< "$pipeline"
        least_of -n "$stages" --threads "$threads"
    done > each
    [ "$(sort -n each | head -n 1)" = "$least" ]
    run np-partition r.yaml --devices 4 --profile-from model --device-memory $((least - 1)) -v
    [ "$status" -eq 1 ]
    grep -q 'does not fit: needs' <<< "$output"
    np-partition r.yaml --devices 4 --profile-from model --device-memory "$least" -o plan.yaml
    np-train r.yaml --plan plan.yaml --run a --stop-after 2
}

@test "replicas: those that a memory holds with all their layers" {
    np-partition r.yaml --replicas 2 --devices 4 --profile-from model -o plan.yaml
    np-partition r.yaml --replicas 2 --devices 4 --profile-from model --device-memory 1GiB -o b.yaml
    diff plan.yaml <(sed '/^device_memory: 1073741824$/d' b.yaml)
    least=$(least_of --replicas 2 -n 2 --threads 1)
    [ "$least" -gt "$(least_of -n 2 --threads 1)" ]
    np-partition r.yaml --replicas 2 -n 2 --threads 1 --profile-from model \
        --device-memory "$least" -o plan.yaml
    np-train r.yaml --plan plan.yaml --run a --stop-after 2
    run np-train r.yaml --plan plan.yaml --run b --device-memory $((least - 1))
    [ "$status" -eq 2 ]
}

# fits N SIZE OPTION...: whether np-partition finds a plan for a batch of N.
fits() {
    np-partition "${@:3}" r.yaml --set train.batch="$1" --device-memory "$2" --devices 4 \
        --profile-from model -q > plan.yaml 2> said
}

# largest SIZE OPTION...: the batch that --max-batch finds.
largest() {
    np-partition --max-batch --device-memory "$1" "${@:2}" --devices 4 r.yaml -q |
        sed -n 's/^--set train.batch=\([0-9]*\) --set train.grain=2$/\1/p'
}

@test "--max-batch: fits, and no larger one does" {
    unsanitized
    sed -i 's/grain: 1/grain: 2/' r.yaml
    for more in '' '-n 1' '-M 2' '--threads 1 -n 2'; do
        # shellcheck disable=SC2086 # options
        batch=$(largest 5MiB $more)
        [ $((batch % 2)) -eq 0 ]
        # shellcheck disable=SC2086
        fits "$batch" 5MiB $more
        np-train r.yaml --set train.batch="$batch" --plan plan.yaml --run "a$more" --stop-after 1
        for grains in 1 2 3 4 5 6 7 8; do
            # shellcheck disable=SC2086
            if fits $((batch + 2 * grains)) 5MiB $more; then false; fi
            grep -q 'nothing fits\|must divide' said
        done
    done
}

@test "--max-batch: one byte less than the batch needs gives a smaller one" {
    sed -i 's/grain: 1/grain: 2/' r.yaml
    batch=$(largest 5MiB)
    least=$(least_of --devices 4 --set train.batch="$batch")
    [ "$(largest "$least")" -eq "$batch" ]
    [ "$(largest $((least - 1)))" -lt "$batch" ]
}

@test "--max-batch: batch norm has one micro-batch" {
    image_recipe
    np-partition --max-batch --devices 2 --device-memory 32MiB recipe.yaml > options 2> said
    [[ "$(cat options)" == "--set train.batch="*" --set train.grain=1" ]]
    [[ "$(cat said)" == "np-partition: batch "*", micro-batches 1, activations computed again" ]]
    run np-partition --max-batch --device-memory 8MiB recipe.yaml -M 2
    [ "$status" -eq 2 ]
}

@test "--max-batch: says what the smallest batch needs, and stops at what a recipe may have" {
    run np-partition --max-batch --devices 2 --device-memory 64KiB r.yaml
    [ "$status" -eq 1 ]
    [[ "${lines[0]}" == *"nothing fits: with a batch of 1, the largest of "*" bytes ("*"), more than 64 KiB" ]]
    least=$(sed -n 's/.* needs at least \([0-9]*\) bytes.*/\1/p' <<< "$output")
    run np-partition --max-batch --devices 2 --device-memory "$least" r.yaml -q
    [ "$output" = "--set train.batch=1 --set train.grain=1" ]
    run np-partition --max-batch --devices 2 --device-memory $((least - 1)) r.yaml
    [ "$status" -eq 1 ]
    np-partition --max-batch --device-memory 1TiB r.yaml > options 2> said
    [ "$(cat options)" = "--set train.batch=4096 --set train.grain=1" ]
    grep -q ', the most that a recipe may have: at least ' said
    one=(-n 1 -M 1 --threads 1 --set train.grain=1024)
    least=$(least_of "${one[@]}" --set train.batch=1048576)
    one+=(--set train.batch=1024)
    np-partition --max-batch --device-memory "$least" "${one[@]}" r.yaml > options 2> said
    [ "$(cat options)" = "--set train.batch=1048576 --set train.grain=1024" ]
    grep -q ', the most that a recipe may have: at least ' said
    np-partition --max-batch --device-memory $((least - 1)) "${one[@]}" r.yaml > options 2> said
    [ "$(cat options)" = "--set train.batch=1047552 --set train.grain=1024" ]
    if grep -q 'the most that' said; then false; fi
    run np-partition --max-batch r.yaml
    [ "$status" -eq 2 ]
    said "np-partition: --max-batch needs --device-memory"
}

# column NAME: of the estimate in e.tsv, without the header
column() {
    awk -F '\t' -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i; next }
                              { print $c }' e.tsv
}

@test "--stash: the plan has the disk's measured bandwidth" {
    np-partition r.yaml --profile-from model --device-memory 1GiB --stash scratch -o plan.yaml
    [ ! -e scratch ]
    grep -qxE 'stash: \{read: [1-9][0-9]*, write: [1-9][0-9]*, both: [1-9][0-9]*, processor: [0-9]+\}' plan.yaml
    np-train r.yaml --run a --plan plan.yaml --stop-after 1
    sed -i 's/^stash: .*/stash: {read: 1, write: 0, both: 1}/' plan.yaml
    run np-train r.yaml --run b --plan plan.yaml
    [ "$status" -eq 2 ]
    [[ "$output" == *"plan.yaml:"*"write"* ]]
}

@test "--estimate: a line a layer, with known parameters" {
    np-partition r.yaml --estimate --profile-from model -o e.tsv
    [ "$(wc -l < e.tsv)" -eq 21 ]
    [ "$(column block | sort -u | tr '\n' ' ')" = \
        "block00 block01 block02 block03 block04 block05 head stem " ]
    [ "$(column candidate | sed -n 2,4p | tr '\n' ' ')" = "0 1 2 " ]
    [ "$(column kind | sed -n 3p)" = "ffn(ratio=2,act=gelu)" ]
    # embedding 256 x 32 and 16 x 32; mha: norm, 4 x (32 x 32 + 32); ffn: norm, up, down; identity
    [ "$(column parameters | sed -n 1,4p | tr '\n' ' ')" = "8704 4288 4256 0 " ]
    [ "$(column moment_bytes | sed -n 1,4p | tr '\n' ' ')" = "69632 34304 34048 0 " ]
    # two products of 32 x 64 for each of 16 tokens, and a little around them
    products=$((2 * 2 * 32 * 64 * 16))
    for pass in forward_flops backward_flops weight_flops; do
        between $products "$(column $pass | sed -n 3p)" $((products + products / 4))
    done
    [ "$(column macs | sed -n 3p)" = $((2 * 32 * 64 * 16)) ]
    # of a sample: the output; the norm's, what goes into and out of gelu, and gradients beside them
    [ "$(column activation_bytes | sed -n 4p)" = $((4 * 16 * 32)) ]
    between $((4 * 16 * (32 + 32 + 3 * 64))) "$(column activation_bytes | sed -n 3p)" \
        $((4 * 16 * (4 * 32 + 4 * 64)))
    [ "$(column weight_ns | sed -n 4p)" = 0 ]
}

@test "--estimate --subnets: the sums of the layers" {
    np-partition r.yaml --estimate --profile-from model -o e.tsv
    printf '%s\n' '0 1 2 0 1 2' '2 2 2 2 2 2 # nothing' > subnets
    np-partition r.yaml --estimate --profile-from model --subnets subnets -o sums
    [ "$(cut -f 11 sums)" = "$(printf '%s\n' subnet '0 1 2 0 1 2' '2 2 2 2 2 2')" ]
    cmp <(cut -f 1-10 sums | head -n 1) <(cut -f 4-13 e.tsv | head -n 1)
    awk -F '\t' 'NR == FNR { for (i = 4; i <= 13; i++) x[$1, $2, i] = $i; next }
        FNR > 1 { split($11, gene, " ")
            for (i = 4; i <= 13; i++) {
                sum = x["stem", 0, i] + x["head", 0, i]
                for (b = 0; b < 6; b++) sum += x["block0" b, gene[b + 1], i]
                if (sum != $(i - 3) || !sum) exit 1
            } }' e.tsv sums
    np-partition r.yaml --estimate --profile-from model --subnets - < subnets | cmp - sums
    run np-partition r.yaml --estimate --profile-from model --subnets - <<< '0 1 2 0 1 3'
    said "np-partition: error: <stdin>:1:11: candidate 3 of block 5 is not in 0..2"
    run np-partition r.yaml --subnets subnets
    said "np-partition: --subnets is for --estimate"
}

@test "--estimate: a part of another's weights has no moments of its own" {
    np-partition r.yaml --estimate --profile-from model -o e.tsv -s 'space.blocks=[
        {weights: entangled, choices: [{op: ffn, ratio: 1}, {op: ffn, ratio: 2}, {op: identity}]}]'
    [ "$(column kind | sed -n 2p)" = "ffn(ratio=1,act=gelu,part_of=ffn(ratio=2,act=gelu))" ]
    [ "$(column parameters | sed -n 2,4p | tr '\n' ' ')" = "2176 4256 0 " ]
    [ "$(column moment_bytes | sed -n 2,4p | tr '\n' ' ')" = "0 34048 0 " ]
}

@test "--estimate: weights and moments add up to the plan's memory" {
    fixed() {
        np-partition r.yaml -n 1 -M 1 -W 1 --threads 1 --profile-from model |
            sed -n 's/.*memory_bytes: \([0-9]*\)}/\1/p'
    }
    few=$(fixed)
    sed -i 's/^ *- {op: identity}/&\n        - {op: ffn, ratio: 2, act: relu}/' r.yaml
    more=$(fixed)
    np-partition r.yaml --estimate --profile-from model -o e.tsv
    paste <(column kind) <(column parameters) <(column moment_bytes) |
        awk -F '\t' '$1 ~ /relu/ { n++; sum += int(($2 * 4 + $3 + 4095) / 4096) * 4096 }
                     END { print n, sum }' > added
    [ "$(cat added)" = "6 $((more - few))" ]
}

@test "--estimate: costs are the plan's" {
    np-partition r.yaml --replicas 1 -n 2 -M 2 --threads 1 -o plan.yaml
    np-partition r.yaml -n 2 -M 2 --threads 1 --estimate -o e.tsv
    paste <(column kind) <(column forward_ns) <(column backward_ns) <(column weight_ns) |
        sort -u | while IFS=$'\t' read -r kind f b w; do
        grep -qF "{kind: \"$kind\", forward_ns: $f, backward_ns: $b, weight_ns: $w}" plan.yaml
    done
    for option in "-W 3" "--cut balanced" "--reach 1" "--recompute always" "--stash-bandwidth 1GiB"; do
        # shellcheck disable=SC2086 # an option and its value
        run np-partition r.yaml --estimate $option
        [ "$status" -eq 2 ]
    done
    said "np-partition: --estimate makes no plan that --devices, --replicas, --window, --unit, --cut, --reach, --recompute, --device-memory and --stash-bandwidth are for"
    run np-partition r.yaml --estimate -M 3
    [ "$status" -eq 2 ]
}

# The milliseconds of a step that a plan promises.
predicted() {
    sed -n 's/^predicted: {step_ms: \([0-9.]*\),.*/\1/p' "$1"
}

@test "a slow stash makes another plan" {
    unsanitized
    plan() { np-partition r.yaml --replicas 1 -n 1 --threads 1 --profile-from model --device-memory 4600KiB "$@"; }
    plan | grep -q '^micro_batches: 2$'
    plan --stash-bandwidth 20MiB --recompute never -o slow.yaml
    grep -q '^micro_batches: 8$' slow.yaml
    plan --stash-bandwidth 20MiB --recompute never -M 2 -o waits.yaml
    plan --stash-bandwidth 20MiB -o again.yaml # layers have the room that activations leave
    grep -qx 'recompute: true' again.yaml
    fast=$(predicted slow.yaml)
    between 5 "$(awk "BEGIN { print $(predicted waits.yaml) / $fast }")" 1000
    between 0 "$(predicted again.yaml)" "$(awk "BEGIN { print 1.04 * $fast }")"
}

@test "more stages than positions" {
    run np-partition r.yaml -n 9 --profile-from model
    [ "$status" -eq 2 ]
    said "np-partition: error: 9 stages are too many: 'r.yaml' has 8 positions"
}

@test "no recipe, two recipes, a missing recipe" {
    run np-partition
    [ "$status" -eq 2 ]
    said "np-partition: a recipe is needed"
    run np-partition r.yaml r.yaml
    [ "$status" -eq 2 ]
    run np-partition missing.yaml
    [ "$status" -eq 2 ]
    said "np-partition: error: cannot open 'missing.yaml': No such file or directory"
}

@test "bad values of options" {
    run np-partition r.yaml -n 0
    [ "$status" -eq 2 ]
    said "np-partition: --stages must be a whole number from 1 to 1024, not '0'"
    run np-partition r.yaml -M 2x
    said "np-partition: --micro-batches must be a whole number from 1 to 4096, not '2x'"
    run np-partition r.yaml --device-memory lots
    [ "$status" -eq 2 ]
    said "np-partition: --device-memory must be a size such as 512MiB or 2GiB, not 'lots'"
    run np-partition r.yaml --stash scratch
    [ "$status" -eq 2 ]
    said "np-partition: --stash is for a plan with --device-memory"
    run np-partition r.yaml --device-memory 1GiB --stash-bandwidth 1MiB --stash scratch
    [ "$status" -eq 2 ]
    said "np-partition: --stash measures what --stash-bandwidth says"
    touch there
    run np-partition r.yaml --device-memory 1GiB --stash there
    [ "$status" -eq 2 ]
    said "np-partition: error: cannot create 'there': File exists"
    run np-partition r.yaml --stash-bandwidth quick
    [ "$status" -eq 2 ]
    said "np-partition: --stash-bandwidth must be a size such as 512MiB or 2GiB, not 'quick'"
    run np-partition r.yaml --profile-from modl
    [ "$status" -eq 2 ]
    said "np-partition: unknown --profile-from 'modl' (did you mean 'model'?)"
    run np-partition r.yaml --isa sse9
    [ "$status" -eq 2 ]
    said "np-partition: unknown --isa 'sse9' (known: scalar, avx2, avx512, neon, auto)"
}

@test "a full disk is an error" {
    run bash -c 'np-partition r.yaml -n 2 --profile-from model > /dev/full'
    [ "$status" -eq 2 ]
    said "np-partition: error: cannot write standard output: No space left on device"
}

@test "an output that cannot be written leaves nothing behind" {
    run np-partition r.yaml -n 2 --profile-from model -o none/plan.yaml
    [ "$status" -eq 2 ]
    [ "$(ls)" = "$(printf 'corpus.txt\nr.yaml')" ]
}

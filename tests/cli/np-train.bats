#!/usr/bin/env bats
# np-train: the same bits however it is run, and clean ends.

load common

setup() {
    fresh_directory
    tiny_recipe
    export XDG_CACHE_HOME=$BATS_RUN_TMPDIR # measured once
}

@test "the digest on standard output, nothing else" {
    np-train recipe.yaml --run a > out 2> talk
    [ "$(cat out)" = "$(digest_of a)  a" ]
    [ ! -s talk ]
    [ "$(wc -l < a/ledger.tsv)" -eq 6 ]
    jq -e '.tool == "np-train" and .argv[1] == "recipe.yaml"' a/run.json
    [ "$(wc -l < a/metrics.jsonl)" -eq 6 ]
    jq -e -s 'length == 6 and .[5].step == 5 and .[0].loss > 5 and .[0].loss < 6.5' a/metrics.jsonl
}

@test "replicas change nothing, and their stages have lanes of their own" {
    unsanitized
    np-train recipe.yaml --run a --stages 1 --replicas 1
    np-train recipe.yaml --run b --stages 2 --replicas 2 --micro-batches 2 --trace trace.json
    grep -q '"replica 1, stage 1"' trace.json
    np-train recipe.yaml --run c --stages 1 --replicas 2 --stop-after 2 --trace trace.svg
    grep -q '>replica 1<' trace.svg
    np-train recipe.yaml --run c --resume --replicas 4 --micro-batches 4 --inject-delays 3
    same a b
    same a c
    np-partition recipe.yaml --replicas 2 -M 2 --profile-from model -q > plan.yaml
    np-train recipe.yaml --run d --plan plan.yaml --device-memory 1GiB
    same a d
    run np-train recipe.yaml --run e -q --plan plan.yaml --device-memory 1MiB
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == *"a device memory of 1048576 bytes is too little for this plan: it needs"* ]]
    run np-train recipe.yaml --run e --plan plan.yaml --device-memory 1GiB --stash stash
    [ "$status" -eq 2 ]
    said "np-train: error: --stash needs --device-memory, or a plan that has it, and one replica"
}

@test "replicas share the subnets of a step where a mini-batch is whole" {
    unsanitized
    image_recipe
    several=(--set 'sampler={members: 4}' -q)
    np-train recipe.yaml --run a --schedule sequential "${several[@]}"
    np-train recipe.yaml --run b --replicas 2 -n 2 --inject-delays 5 "${several[@]}"
    np-train recipe.yaml --run c --replicas 4 -W 5 --recompute always "${several[@]}"
    same a b
    same a c
    refused '3 replicas cannot share 4 subnets a step, of 1 micro-batch each, evenly' \
        np-train recipe.yaml --run d --replicas 3 "${several[@]}"
    learn='subnets of a step learn from the first one: 2 replicas must share their micro-batches, '
    refused "${learn}and cannot share 1 evenly" np-train recipe.yaml --run d --replicas 2 -q \
        --set 'sampler={kind: sandwich}' --set 'train.loss={distill: 0.5}'
    [ ! -e d ]
}

@test "stages, micro-batches, windows, threads, units and pauses change nothing" {
    np-train recipe.yaml --run a --schedule sequential
    np-train recipe.yaml --run b --stages 2
    np-train recipe.yaml --run c --stages 6 --micro-batches 4 --window 3 --unit 1
    np-train recipe.yaml --run d --stages 3 --micro-batches 2 --threads 2 --window 1
    np-train recipe.yaml --run e --stages 4 --inject-delays 5
    for run in b c d e; do same a $run; done
}

@test "instruction sets change nothing" {
    np-train recipe.yaml --run reference --isa scalar --schedule sequential
    for isa in $(np-train --version | sed -n 's/^instruction sets: //p'); do
        np-train recipe.yaml --run "$isa" --isa "$isa" --stages 2
        same reference "$isa"
        [ "$(jq -r .isa "$isa/run.json")" = "$isa" ]
    done
    [ "$(jq -r .host reference/run.json)" = "$(uname -n)" ]
    case $(uname -m) in
    x86_64) other=neon ;;
    *) other=avx2 ;;
    esac
    run np-train recipe.yaml --run r --isa $other
    [ "$status" -eq 2 ]
    said "np-train: this machine lacks the instruction set '$other'"
}

@test "a plan from a pipe and from a file" {
    np-train recipe.yaml --run a
    np-partition recipe.yaml -n 2 --profile-from model | np-train recipe.yaml --plan - --run b
    np-partition recipe.yaml -n 3 --profile-from model -o plan.yaml
    np-train recipe.yaml --plan plan.yaml --run c
    same a b
    same a c
    jq -e '.plan.stages == 3' c/run.json
}

@test "without a plan, the one that np-partition makes from modelled costs" {
    for more in --devices=2 --stages=3 --device-memory=4MiB; do
        np-partition recipe.yaml -q -o plan.yaml --profile-from model "$more"
        np-train recipe.yaml --plan plan.yaml --run a
        np-train recipe.yaml --run b "$more"
        same a b
        [ "$(jq -c .plan a/run.json)" = "$(jq -c .plan b/run.json)" ]
        rm -r a b
    done
}

@test "a plan with more threads than may be used is warned of, and trains" {
    [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ] || skip 'there is one processor'
    for options in '--run two -n 2' '--run quiet -n 2 -q' '--run one'; do
        # shellcheck disable=SC2086 # words
        taskset -c "$(first_processor)" np-train recipe.yaml $options > /dev/null 2>> said
    done
    [[ "$(cat said)" = "np-train: warning: 2 threads share 1 of "* ]]
    [ "$(wc -l < said)" -eq 1 ]
    [ "$(jq .plan.threads one/run.json)" = 1 ]
    np-verify two one
}

@test "a run that may come to take more memory than there is is warned of" {
    unsanitized
    wide=recipe-wide.yaml
    sed 's/width: .*/width: 1024/; /{op:/d; /repeat/d; s/  choices:/- choices:/' recipe.yaml > $wide
    yes '        - {op: ffn, ratio: 64}' | head -n 4000 | sed -i '/- choices:/r /dev/stdin' $wide
    : > none
    np-train $wide --run a --subnets none -n 1 > /dev/null 2> said
    grep -q '^np-train: warning: this may come to take 5.8 TiB, and .* may be used: ' said
    for options in '-q' '--device-memory 4GiB --stash scratch'; do
        # shellcheck disable=SC2086 # words
        np-train $wide --run "b$options" --subnets none -n 1 $options > /dev/null 2> said
        [ "$(grep -c warning said)" -eq 0 ]
    done
}

@test "--expect: yes, no, and not a digest" {
    digest=$(np-train recipe.yaml --run a | cut -c 1-64)
    np-train recipe.yaml --run b --stages 2 --expect "$digest"
    run np-train recipe.yaml --run c --set seed=8 --expect "$digest"
    [ "$status" -eq 1 ]
    [[ "$output" == *"'c' has digest "*", not the expected $digest"* ]]
    [ -s c/checkpoints/0000000006.manifest ]
    refused "--expect 'abc' is not 64 hex digits" np-train recipe.yaml --run d --expect abc
}

@test "--set changes the recipe and its digest" {
    np-train recipe.yaml --run a --set train.steps=2 --set space.blocks.0.repeat=2 \
        --set 'train.optimizer={kind: sgd, lr: 0.1}'
    [ "$(wc -l < a/ledger.tsv)" -eq 2 ]
    grep -q '^  steps: 2$' a/recipe.yaml
    grep -q 'optimizer: {kind: sgd, lr: 0.1, momentum: 0.9, nesterov: false, weight_decay: 0}' a/recipe.yaml
    refused "--set train.stesp=3: unknown key 'stesp' (did you mean 'steps'?)" \
        np-train recipe.yaml --run b --set train.stesp=3
    refused "--set train.steps: expected KEY=VALUE" np-train recipe.yaml --run b --set train.steps
}

@test "the recipe in a run directory is the recipe" {
    np-train recipe.yaml --run a
    cp corpus.txt a
    np-train a/recipe.yaml --run b
    same a b
    np-train - --run c < recipe.yaml
    same a c
}

@test "subnets.txt: a run with a stream says which, and is continued with no other" {
    printf '%s\n' '0 1 2 3' '3 2 1 0' '1 1 1 1' '2 0 2 0' '0 0 0 0' '3 3 3 3' > subnets
    np-train recipe.yaml --run whole --subnets subnets
    np-train recipe.yaml --run a --subnets - --stop-after 3 < subnets
    cmp a/subnets.txt <(head -n 3 subnets)
    np-verify --fsck a
    refused "the run was trained with --subnets: give the stream again, which begins as 'a/subnets.txt' does" \
        np-train recipe.yaml --run a --resume
    sed '2s/3/0/' subnets > other
    for stream in other - ; do
        refused "step 1 was trained with other subnets than the stream has: 'a/subnets.txt' has them" \
            np-train recipe.yaml --run a --resume --subnets $stream < other
    done
    head -n 2 subnets > short
    refused 'the stream ends after 2 steps, before step 3' \
        np-train recipe.yaml --run a --resume --subnets short
    echo '1 2 3 0' >> a/subnets.txt
    refused "--subnets 'a/subnets.txt' is what the run writes: give a copy" \
        np-train recipe.yaml --run a --resume --subnets a/subnets.txt # or it would read what it writes
    echo '1 2' >> a/subnets.txt # what a run leaves that ends after its checkpoint
    np-train recipe.yaml --run a --resume --subnets subnets
    same whole a
    cmp a/subnets.txt subnets
    np-train recipe.yaml --run again --subnets whole/subnets.txt
    same whole again
    cp -r whole cut
    sed -i '$d' cut/subnets.txt
    run np-verify --fsck cut
    [ "$status" -eq 1 ]
    said 'np-verify: cut/subnets.txt: damaged: it has not the subnets of step 5'
    sed -i '2s/ 0$/ 4/' whole/subnets.txt
    run np-verify --fsck whole
    [ "$status" -eq 1 ]
    said 'np-verify: whole/subnets.txt: damaged: it has not the subnets of step 1'
}

@test "subnets.txt: candidates of more than one digit" {
    choices=$(for ratio in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "{op: ffn, ratio: $ratio}"; done | paste -sd ,)
    sed -i "/- {op/d; s/choices:/choices: [$choices]/" recipe.yaml
    printf '%s\n' '11 10 11 10' '1 2 3 4' '10 1 0 11' '0 0 0 0' '11 11 11 11' '2 10 2 10' > subnets
    np-train recipe.yaml --run whole --subnets subnets
    cmp whole/subnets.txt subnets
    np-train recipe.yaml --run a --subnets subnets --stop-after 4
    np-train recipe.yaml --run a --resume --subnets subnets
    same whole a
}

@test "subnets.txt: a run that a stream continues has the sampler's steps, too" {
    sampler=(-s 'sampler={kind: spread, spread: 4, members: 2}')
    np-train recipe.yaml --run drawn "${sampler[@]}"
    [ ! -e drawn/subnets.txt ]
    np-train recipe.yaml --run a "${sampler[@]}" --stop-after 4
    yes '0 1 2 3' | head -n 12 > subnets # the first eight are passed over
    np-train recipe.yaml --run a "${sampler[@]}" --resume --subnets subnets --schedule sequential
    [ "$(wc -l < a/subnets.txt)" -eq 12 ]
    [ "$(tail -n 4 a/subnets.txt | sort -u)" = '0 1 2 3' ]
    np-train recipe.yaml --run b "${sampler[@]}" --subnets a/subnets.txt
    same a b
    np-train recipe.yaml --run c "${sampler[@]}" --subnets a/subnets.txt --stop-after 4
    cmp <(cut -f 1-4 drawn/ledger.tsv | head -n 4) <(cut -f 1-4 c/ledger.tsv)
}

@test "subnets.txt: the sampler's steps are there before any of the stream" {
    np-train recipe.yaml --run a --stop-after 4
    yes '0 1 2 3' | head -n 6 > subnets
    mkfifo stream losses
    np-train recipe.yaml --run a --resume --subnets stream --losses losses > /dev/null 2>&1 &
    pid=$!
    exec 8<> stream 9<> losses
    head -n 5 subnets >&8 # the first four are passed over
    read -r -u 9 line     # step 4 is done, and no checkpoint after it
    [ "${line%%$'\t'*}" = 4 ]
    kill -9 $pid
    wait $pid || true
    exec 8>&- 9<&-
    [ "$(wc -l < a/subnets.txt)" -ge 4 ]
    np-verify --fsck a
    head -n 4 a/subnets.txt > whole
    tail -n 2 subnets >> whole
    np-train recipe.yaml --run a --resume --subnets whole
    np-train recipe.yaml --run b --subnets whole
    same a b
}

@test "subnets from a file end the run where they end" {
    printf '0 1 2 3\n# a comment\n\n3 2 1 0  # and another\n1 1 1 1\n' > subnets
    np-train recipe.yaml --run a --subnets subnets --losses losses.tsv
    [ "$(wc -l < a/ledger.tsv)" -eq 3 ]
    np-train recipe.yaml --run early --subnets subnets 2> said
    grep -F "'subnets' ended after 3 of 6 steps" said
    [ "$(cut -f 1 losses.tsv)" = "$(seq 0 2)" ]
    cmp <(cut -f 2 losses.tsv) <(cut -f 5 a/ledger.tsv)
    np-train recipe.yaml --run b --subnets - --schedule sequential < subnets
    same a b
    np-train recipe.yaml --run c --subnets subnets --stop-after 1
    cat subnets | np-train recipe.yaml --run c --subnets - --resume --stages 3
    same a c
    np-train recipe.yaml --run c --subnets subnets --resume 2> said
    grep -F "nothing was trained: no further subnet in 'subnets'" said
    np-train recipe.yaml --run d --subnets - < /dev/null 2> said
    grep -F "nothing was trained: no further subnet in '<stdin>'" said
    np-train recipe.yaml --run e --subnets - -q < /dev/null 2> said
    [ ! -s said ]
}

@test "where a stream ends the run, it is evaluated, once" {
    evaluated() {
        np-train recipe.yaml --run r --subnets "$@" --eval-subnets 1 --eval-batches 1 -q > /dev/null
        jq -r 'select(.valid_loss).step' r/metrics.jsonl | paste -sd ' '
        rm -r r
    }
    yes '0 1 2 3' | head -n 3 > three
    yes '0 1 2 3' | head -n 4 > four
    [ "$(evaluated three --eval-every 2)" = '2 3' ]
    [ "$(evaluated three --eval-every 2 --schedule sequential)" = '2 3' ]
    [ "$(evaluated four --eval-every 2 --set train.checkpoint_every=3)" = '2 4' ]
    [ "$(evaluated three --eval-every 2 --set train.checkpoint_every=3)" = '2 3' ]
    [ "$(evaluated three)" = '' ]
}

@test "standard input that was read from before" {
    printf '0 1 2 3\n3 2 1 0\n1 1 1 1\n' > subnets
    tail -n 2 subnets > rest
    np-train recipe.yaml --run a --subnets rest
    { read -r _; np-train recipe.yaml --run b --subnets -; } < subnets
    np-verify a b
}

@test "--subnets - with --losses - answers step by step" {
    coproc trainer { np-train recipe.yaml --run a --subnets - --losses - --stages 2; }
    pid=$trainer_PID
    exec 7<&"${trainer[0]}" 8>&"${trainer[1]}"
    eval "exec ${trainer[1]}>&-"
    for step in 0 1 2; do
        echo "$step 0 3 1" >&8
        read -r -t 20 got loss <&7
        [ "$got" -eq "$step" ]
        between 4 "$loss" 8
    done
    exec 8>&-
    read -r -t 20 digest name <&7
    [ "$name" = a ]
    wait "$pid"
    [ "$digest" = "$(digest_of a)" ]
    printf '%s 0 3 1\n' 0 1 2 > subnets
    np-train recipe.yaml --run b --subnets subnets
    same a b
}

@test "several members a step: as many losses, the fair sampler" {
    np-train recipe.yaml --run a --set sampler='{kind: fair}' --stages 2 --losses losses
    np-train recipe.yaml --run b --set sampler='{kind: fair}' --schedule sequential
    same a b
    [ "$(awk -F '\t' '{ print NF }' losses | sort -u)" -eq 5 ]
    [ "$(awk -F '\t' '{ print NF }' a/ledger.tsv | sort -u)" -eq 11 ]
}

@test "shared layers: frozen, and read with a delay across a resume" {
    np-train recipe.yaml --run a --set shared='{policy: frozen}' --stages 3
    lacks 'stem' a/checkpoints/0000000006.manifest
    np-train recipe.yaml --run b --set shared='{policy: delay, steps: 3}' --stages 3
    np-train recipe.yaml --run c --set shared='{policy: delay, steps: 3}' --stop-after 4
    grep -q ' stem@-2$' c/checkpoints/0000000004.manifest
    np-train recipe.yaml --run c --set shared='{policy: delay, steps: 3}' --resume --stages 6
    same b c
}

@test "--trace writes a Chrome trace or a drawing" {
    np-train recipe.yaml --run a/ --stages 2 --trace a/trace.json # of a new run
    jq -e '.traceEvents | length > 20' a/trace.json
    np-predict-trace recipe.yaml --stages 2 --against a > report
    refused "cannot create 'none/trace.json': No such file or directory" \
        np-train recipe.yaml --run c --trace none/trace.json
    for name in ledger.tsv layers.tsv subnets.txt run.json objects ""; do
        run np-train recipe.yaml --run c --trace c/$name
        [ "$status" -eq 2 ]
        said "np-train: error: cannot create 'c/$name': No such file or directory"
    done
    [ ! -e c ]
    np-train recipe.yaml --run b --stages 2 --trace trace.svg
    head -c 100 trace.svg | grep -q '<svg'
    tail -n 1 trace.svg | grep -q '</svg>'
    if command -v xmllint > /dev/null; then xmllint --noout trace.svg; fi
    same a b
}

@test "--eval-every adds validation losses to the metrics, and no bit to the run" {
    np-train recipe.yaml --run a
    np-train recipe.yaml --run b --eval-every 4 --eval-subnets 3 --eval-batches 2 --stages 2
    same a b
    [ "$(jq -c 'select(.valid_loss) | [.step, (.subnets | length)]' b/metrics.jsonl)" = \
        "$(printf '[4,3]\n[6,3]')" ]
    np-train recipe.yaml --run c --eval-every 4 --eval-subnets 3 --eval-batches 2 --isa scalar
    cmp <(jq -c 'select(.valid_loss) | .subnets' b/metrics.jsonl) \
        <(jq -c 'select(.valid_loss) | .subnets' c/metrics.jsonl)
    sed -i '/valid:/d' recipe.yaml
    refused "--eval-every needs 'data.valid' in 'recipe.yaml'" \
        np-train recipe.yaml --run d --eval-every 1
}

@test "--ledger layers: a fingerprint a layer, also across a resume" {
    np-train recipe.yaml --run a --ledger layers --stages 2
    [ "$(cut -f 2 a/layers.tsv | grep -c '^stem$')" -eq 6 ]
    np-train recipe.yaml --run b --ledger layers --stop-after 3
    np-train recipe.yaml --run b --ledger layers --resume --stages 3
    cmp a/layers.tsv b/layers.tsv
    # a step's fingerprint is the sum of those of its layers
    sum=0
    while IFS=$'\t' read -r step _ print; do
        [ "$step" -eq 2 ] && sum=$((sum + 0x$print))
    done < a/layers.tsv
    [ "$(printf %016x "$sum")" = "$(awk -F '\t' '$1 == 2 { print $3 }' a/ledger.tsv)" ]
}

@test "progress on a terminal, erased at the end; none with -q, or where nothing can be erased" {
    command -v script > /dev/null || skip "no script to make a terminal"
    export TERM=vt100
    script -qec "np-train recipe.yaml --run a --stages 2" /dev/null < /dev/null > typed
    tr '\r' '\n' < typed | grep -qE \
        'step [0-9]+/6 \| [0-9.]+ (steps/s|s a step) \| loss [0-9.]+ \| bubble [0-9.]+ % \| ETA [0-9]+:[0-9]{2}'
    tail -n 1 typed | grep -q "$(printf '\r\033\\[K')$(digest_of a)  a"
    script -qec "np-train recipe.yaml --run b --stages 2 -q" /dev/null < /dev/null > typed
    [ "$(tr -d '\r' < typed)" = "$(digest_of b)  b" ]
    TERM=dumb script -qec "np-train recipe.yaml --run c" /dev/null < /dev/null > typed
    [ "$(tr -d '\r' < typed)" = "$(digest_of c)  c" ]
}

@test "progress in a narrow terminal is one line; other lines have one of their own; not in the background" {
    command -v script > /dev/null || skip "no script to make a terminal"
    export TERM=vt100
    cat > on-terminal << 'END'
stty cols 30
np-train recipe.yaml --run a -v --eval-every 1 --eval-subnets 1 --eval-batches 1 --losses -
np-evaluate recipe.yaml --run a --random 3
set -m
np-train recipe.yaml --run b &
wait $!
END
    script -qec "bash on-terminal" /dev/null < /dev/null > typed
    tr '\r' '\n' < typed > lines
    grep -q "^$(printf '\033\\[K')step 1/6 | [0-9.]* s" lines # the first 29 characters
    [ "$(tr -d '\033' < lines | sed 's/^\[K//' | grep '^step' | awk 'length > 29' | wc -l)" -eq 0 ]
    grep -q "^$(printf '\033\\[K')np-train: step 1: validation loss" lines
    grep -q "^$(printf '\033\\[K')[0-9.]*	[0-9.]*	[0-3] " lines # a score
    sed -n '/  a$/,$p' lines | tr -d '\033' > after
    [ "$(sed 's/^\[K//' after | grep -c '^step')" -eq 0 ]
    grep -q '  b$' after
}

@test "-v says what it came to, -q nothing" {
    np-train recipe.yaml --run a -v --stages 2 > out 2> talk
    grep -q '^np-train: 6 steps in .* tokens/s' talk
    grep -q "^np-train: checkpoints in [0-9.]* s$" talk
    np-train recipe.yaml --run b --stop-after 2 -q > out 2> talk
    [ ! -s talk ]
}

@test "metrics.jsonl has the ledger's means and rates, and the means of an evaluation's subnets" {
    np-train recipe.yaml --run a -q -s sampler='{members: 2}' \
        -s 'train.schedule={kind: cosine, warmup: 3}' --eval-every 6 --eval-subnets 3 > digest
    jq -r 'select(.loss) | "\(.loss) \(.lr)"' a/metrics.jsonl > metrics
    [ "$(cut -d ' ' -f 2 metrics | sort -u | wc -l)" -gt 3 ]
    cut -f 2,5,7 a/ledger.tsv | paste -d ' ' metrics - | python3 -c '
import sys
rows = [line.split() for line in sys.stdin]
assert len(rows) == 6
for loss, rate, hexadecimal, *members in rows:
    assert abs(float(loss) - sum(map(float, members)) / 2) < 1e-4
    assert abs(float(rate) / float.fromhex(hexadecimal) - 1) < 1e-4'
    for list in subnets=valid_loss accuracies=valid_accuracy; do
        jq -e "select(.valid_loss) | (.${list%=*} | add / length) - .${list#*=} | fabs < 1e-4" \
            a/metrics.jsonl
    done
    [ -z "$(norms a)" ]
    sed -i 's/^train:/&\n  clip: {kind: layer, limit: 0.05}/' recipe.yaml
    np-train recipe.yaml --run b -q --schedule sequential > digest
    np-train recipe.yaml --run c -q --stages 3 --threads 2 > digest
    same b c
    [ "$(norms b | wc -l)" -eq 6 ]
    [ "$(norms b)" = "$(norms c)" ]
    jq -e -s 'map(select(.loss).grad_norm) | all(. > 0.1 and . < 10)' b/metrics.jsonl
}

@test "--version names what it is made of" {
    run np-train --version
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "np-train (naspipe) "* ]]
    [[ "$output" == *"numerics: portable/1"* ]]
    [[ "$output" == *"flags: "*"-ffp-contract=off"* ]]
    [[ "$output" == *"instruction sets: scalar"* ]]
}

@test "without CUDA, --backend cuda says so and auto is cpu" {
    np-train --version | grep -q '^CUDA: not built' || skip 'this build has CUDA'
    refused "this build has no CUDA ('make CUDA=1' makes one that has)" \
        np-train recipe.yaml --run r --backend cuda
    np-train recipe.yaml --run cpu
    np-train recipe.yaml --run auto --backend auto --expect "$(digest_of cpu)"
    [ "$(jq -r .backend auto/run.json)" = cpu ]
    run np-train recipe.yaml --run r --backend auto --devices 2
    [ "$status" -eq 2 ]
    [[ "$output" == *'--backend must say which'* ]]
}

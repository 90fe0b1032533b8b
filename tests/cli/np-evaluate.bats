#!/usr/bin/env bats
# np-evaluate: the scores that training gives, whoever computes them, in the order of the subnets.

load common

setup() {
    fresh_directory
    tiny_recipe
}

# scored RECIPE OPTION...: of the run a.
scored() {
    np-evaluate "$1" --run a -q "${@:2}"
}

@test "the scores of an evaluation in training, for text, images with batch norm, and pairs" {
    for recipe in $(some 'tiny_recipe image_recipe pairs_recipe' image_recipe); do
        rm -rf ./*
        $recipe
        np-train recipe.yaml --run a -q --eval-every 100 --eval-subnets 5 --eval-batches 3 > digest
        scored recipe.yaml --random 5 --batches 3 > all
        jq -r 'select(.valid_loss) | [.subnets, .accuracies] | transpose[] | @tsv' a/metrics.jsonl \
            > expected
        [ "$(wc -l < expected)" -eq 5 ]
        awk '{ printf "%.6g\t%.6g\n", $1, $2 }' all | cmp - expected
        np-verify --expect "$(cut -c 1-64 digest)" a # nothing of the run has changed
    done
}

@test "an evaluation in training of a space of few subnets has each of them as often as it is drawn" {
    sed -i '/conv1d/d; /op: mha/d; s/repeat: 4/repeat: 1/' recipe.yaml
    np-train recipe.yaml --run a -q --eval-every 100 --eval-subnets 9 > digest
    scored recipe.yaml --random 9 > all
    [ "$(sort -u all | wc -l)" -eq 2 ]
    jq -r 'select(.valid_loss) | [.subnets, .accuracies] | transpose[] | @tsv' a/metrics.jsonl > said
    awk '{ printf "%.6g\t%.6g\n", $1, $2 }' all | cmp - said
}

@test "jobs, threads, instruction sets and the way that subnets come change nothing" {
    np-train recipe.yaml --run a -q > digest
    scored recipe.yaml --random 40 -j 1 > all
    [ "$(sort -u all | wc -l)" -gt 30 ]
    cut -f 3 all > subnets
    gives all scored recipe.yaml --random 40 -j 3
    gives all scored recipe.yaml --subnets subnets -j 2 --threads 2
    gives all scored recipe.yaml --subnets subnets --isa scalar
    gives all scored recipe.yaml --subnets - < subnets
    for jobs in 1 3; do # weights are read again
        gives all scored recipe.yaml --subnets subnets -j $jobs --weight-memory 1
        gives all scored recipe.yaml --subnets subnets -j $jobs --weight-memory 40KiB
    done
    declined "--weight-memory must be" scored recipe.yaml --weight-memory x
    head -n 3 subnets > few
    gives <(head -n 3 all) scored recipe.yaml --subnets few -j 8
}

@test "a checkpoint on the way, and layers that no step has trained" {
    np-train recipe.yaml --run a -q --set train.checkpoint_every=2 > digest
    np-train recipe.yaml --run b -q --set train.checkpoint_every=2 --stop-after 2 > digest
    scored recipe.yaml -s train.checkpoint_every=2 --step 2 > early
    gives early np-evaluate recipe.yaml --run b -s train.checkpoint_every=2
    scored recipe.yaml -s train.checkpoint_every=2 > late
    run cmp -s early late
    [ "$status" -eq 1 ]
    [ "$(wc -l < late)" -eq 16 ]
}

@test "a run that has trained nothing has the weights it would begin with" {
    : > none
    np-train recipe.yaml --run a -q --subnets none > digest
    scored recipe.yaml > all
    awk '$1 < 5 || $1 > 6.5 { bad = 1 } END { exit bad || NR != 16 }' all
}

@test "whatever lies beside the weights in a checkpoint: moments, none, older versions" {
    for set in 'train.optimizer={kind: sgd, lr: 0.05, momentum: 0}' \
        'train.optimizer={kind: sgd, lr: 0.05}' 'shared={policy: delay, steps: 3}'; do
        rm -rf a
        np-train recipe.yaml --run a -q -s "$set" --eval-every 100 > digest
        scored recipe.yaml -s "$set" | awk '{ printf "%.6g\n", $1 }' > all
        [ "$(wc -l < all)" -eq 16 ]
        jq -r 'select(.valid_loss) | .subnets[]' a/metrics.jsonl | cmp - all
    done
}

@test "a search asks and is answered line by line" {
    np-train recipe.yaml --run a -q > digest
    mkfifo ask
    scored recipe.yaml --subnets ask -j 2 > answers &
    exec 9> ask
    for subnet in '0 1 2 3' '3 3 3 3' '1 0 0 2'; do
        echo "$subnet" >&9
        for _ in $(seq 600); do
            [ "$(tail -n 1 answers | cut -f 3)" = "$subnet" ] && break
            sleep 0.05
        done
        [ "$(tail -n 1 answers | cut -f 3)" = "$subnet" ]
    done
    exec 9>&-
    wait $!
    [ "$(wc -l < answers)" -eq 3 ]
}

@test "interrupted: what was scored is there, exit 75; also while it waits for a subnet" {
    np-train recipe.yaml --run a -q > digest
    np-evaluate recipe.yaml --run a --random 1000000 > all 2> said &
    until [ "$(wc -l < all)" -gt 5 ]; do kill -0 $!; sleep 0.05; done
    kill -TERM $!
    code=0
    wait $! || code=$?
    [ $code -eq 75 ]
    [ "$(cat said)" = "np-evaluate: stopped on request: $(wc -l < all) scored" ]
    gives all scored recipe.yaml --random "$(wc -l < all)"
    mkfifo ask
    np-evaluate recipe.yaml --run a --subnets ask > answers &
    exec 9> ask
    echo '0 0 0 0' >&9
    until [ -s answers ]; do kill -0 $!; sleep 0.05; done
    kill -TERM $!
    code=0
    wait $! || code=$?
    [ $code -eq 75 ]
    exec 9>&-
    [ "$(wc -l < answers)" -eq 1 ]
}

@test "a bad line ends it, after the subnets before it" {
    np-train recipe.yaml --run a -q > digest
    { for _ in $(seq 20); do echo '0 1 2 3'; done; echo '0 1 2 4'; } > subnets
    declined 'subnets:21:7: candidate 4 of block 3 is not in 0..3' scored recipe.yaml --subnets subnets
    mkfifo pipe
    cat subnets > pipe &
    declined 'pipe:21:7: candidate 4 of block 3 is not in 0..3' scored recipe.yaml --subnets pipe
    [ "${#lines[@]}" -eq 21 ]
}

# untrained BATCHES OPTION...: the losses of 16 subnets with the weights that they begin with.
untrained() {
    rm -rf a
    np-train recipe.yaml --run a -q --subnets /dev/null "${@:2}" > digest
    scored recipe.yaml --batches "$@" | cut -f 1
}

@test "a score is the mean over all batches, without dropout and with the recipe's smoothing" {
    untrained 1 > one
    untrained 2 > two
    paste one two | awk '$1 == $2 { exit 1 }'
    untrained 1 -s train.batch=8 -s train.grain=1 | paste two - |
        awk '{ d = $1 / $2 - 1; if (d > 1e-6 || d < -1e-6) bad = 1 } END { exit bad || NR != 16 }'
    untrained 2 -s 'train.loss={kind: cross_entropy, label_smoothing: 0.5}' | paste two - |
        awk '$1 == $2 { exit 1 }'
    sed -i 's/dropout: 0.1/dropout: 0/' recipe.yaml
    untrained 2 | cmp - two
}

@test "other validation data and calibration than the run's: as if it had had them" {
    image_recipe
    np-train recipe.yaml --run a -q > digest
    scored recipe.yaml > whole
    for set in data.valid.part='[0.9, 1.0]' train.calibration=1; do
        scored recipe.yaml -s "$set" > other
        if cmp -s whole other; then false; fi
        np-train recipe.yaml --run b -q -s "$set" > digest
        np-evaluate recipe.yaml --run b -q -s "$set" | cmp - other
        yes 0 | head -n 7 | paste -sd ' ' > subnet
        np-export recipe.yaml --run a -q -s "$set" --subnet subnet -o a.st
        np-export recipe.yaml --run b -q -s "$set" --subnet subnet -o b.st
        cmp <(tail -c 2000 a.st) <(tail -c 2000 b.st)
        "$NP_TREE/tests/cli/check-export" a a.st > /dev/null
        rm -r b
    done
    # 8 images, 4 a batch
    np-evaluate recipe.yaml --run a --random 1 --batches 2 2> talk | cmp - <(
        np-evaluate recipe.yaml --run a --random 1 --batches 4 2> more)
    [ ! -s talk ]
    np-evaluate recipe.yaml --run a --random 1 2> talk > less # 4 by default
    [ ! -s talk ]
    [ "$(cat more)" = \
        'np-evaluate: 2 of 4 batches would have each of 8 images equally often' ]
    declined "another recipe: it has 'steps: 6', not 'steps: 7'" scored recipe.yaml -s train.steps=7
    # versions of a layer that is read with a delay, the first of them not trained yet
    rm -r a
    tiny_recipe
    sed -i 's/^train:/shared: {steps: 3}\n&/' recipe.yaml
    np-train recipe.yaml --run a -q --stop-after 1 > digest
    scored recipe.yaml -s data.valid.part='[0.8, 1.0]' > other
    [ "$(wc -l < other)" -eq 16 ]
}

@test "what cannot be scored is refused" {
    np-train recipe.yaml --run a -q > digest
    declined 'the run was made with another recipe' scored recipe.yaml -s seed=8
    declined "'a' has no checkpoint after 3 steps" scored recipe.yaml --step 3
    declined 'b/checkpoints' np-evaluate recipe.yaml --run b
    mkdir -p none/checkpoints
    declined "'none' has no checkpoint yet" np-evaluate recipe.yaml --run none
    declined 'a recipe is needed' np-evaluate --run a
    declined '--run DIR is needed' np-evaluate recipe.yaml
    declined 'one of the two' scored recipe.yaml --subnets x --random 3
    declined "cannot open 'x'" scored recipe.yaml --subnets x
    sed '/valid:/d' recipe.yaml > blind.yaml
    declined "there is no 'data.valid' in 'blind.yaml'" scored blind.yaml
    declined 'portable numerics alone are evaluated, not fast/sm_90-tf32' \
        scored recipe.yaml -s numerics=fast/sm_90-tf32
    declined '--threads are for --backend cpu' scored recipe.yaml --backend cuda --threads 2
    object=$(find a/objects -type f | head -n 1)
    truncate -s 20 "$object"
    declined 'damaged' scored recipe.yaml --random 50
}

@test "a full disk is an error" {
    np-train recipe.yaml --run a -q > digest
    run bash -c 'np-evaluate recipe.yaml --run a > /dev/full'
    [ "$status" -eq 2 ]
    [[ "$output" = *'standard output'* ]]
}

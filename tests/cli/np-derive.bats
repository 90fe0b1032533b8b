#!/usr/bin/env bats
# np-derive: a subnet of a space as a recipe of its own.

load common

setup() {
    fresh_directory
}

# whole SUBNET: its score in the supernet's run is that of its own recipe with inherited weights,
# before its first step.
whole() {
    np-evaluate recipe.yaml --run a --subnets "$1" -q > shared
    np-derive recipe.yaml --subnet "$1" -o own.yaml
    rm -rf own
    np-train own.yaml --run own --init a -q -s train.steps=1 > digest 2> talk
    np-evaluate own.yaml --run own --step 0 --random 1 -q -s train.steps=1 > alone
    cmp <(cut -f 1,2 shared) <(cut -f 1,2 alone)
}

@test "every space: a subnet computes what it does in its supernet, bit for bit" {
    every=$(cd "$NP_TREE/tests/recipes" && echo *.yaml)
    for recipe in $(some "${every//.yaml/}" 'joins widths'); do
        mkdir "$recipe"
        cd "$recipe"
        "$NP_TREE/tests/write-inputs" 9 6 5
        cp "$NP_TREE/tests/recipes/$recipe.yaml" recipe.yaml
        grep -q '  valid:' recipe.yaml || sed -i 's/^  train: {\(.*\)}$/&\n  valid: {\1}/' recipe.yaml
        np-train recipe.yaml --run a -q > digest
        np-evaluate recipe.yaml --run a --random 8 --batches 1 -q | cut -f 3 > subnets
        tried=0
        while IFS= read -r subnet && [ $tried -lt 2 ]; do
            echo "$subnet" > subnet
            # what was to read a block may not have been chosen
            np-derive recipe.yaml --subnet subnet > own.yaml 2> talk || {
                grep -q 'in this subnet no block reads what block [0-9]* makes$' talk
                continue
            }
            whole subnet
            tried=$((tried + 1))
        done < subnets
        [ $tried -eq 2 ]
        cd ..
    done
}

@test "candidates that are alike are not taken for each other" {
    tiny_recipe
    sed -i 's/{op: conv1d, kernel: 3}/{op: ffn, ratio: 2}/' recipe.yaml
    np-train recipe.yaml --run a -q > digest
    echo 2 1 2 2 > subnet
    whole subnet
    [ "$(grep -c 'origin: 2' own.yaml)" -eq 2 ]
    sed -i '/origin/d' own.yaml # others
    np-train own.yaml --run other --init a -q -s train.steps=1 > digest 2> talk
    np-evaluate own.yaml --run other --step 0 --random 1 -q -s train.steps=1 > alone
    ! cmp -s <(cut -f 1 shared) <(cut -f 1 alone) || return 1
    # nor where the space itself is a part of another, which its blocks name by origin
    sed -i 's/^    - repeat: 4/&\n      origin: 1/' recipe.yaml
    np-train recipe.yaml --run part -q > digest
    rm -rf a && mv part a
    whole subnet
    [ "$(grep -c 'origin: 2' own.yaml)" -eq 2 ]
}

@test "it is trained like any recipe, on any plan" {
    image_recipe
    echo 1 0 1 2 1 0 1 > subnet
    np-derive recipe.yaml --subnet subnet > own.yaml
    gives own.yaml np-derive recipe.yaml --subnet - < subnet
    np-train own.yaml --run a --schedule sequential -q
    np-train own.yaml --run b --stages 3 --threads 2 -q
    same a b
    cmp own.yaml a/recipe.yaml # as it was written
    echo 0 0 0 0 0 0 0 > nothing_left_to_choose
    gives own.yaml np-derive own.yaml --subnet nothing_left_to_choose
}

@test "what is left of the recipe, and what is not" {
    tiny_recipe
    cat >> recipe.yaml <<'YAML'
  loss: {distill: 0.5, label_smoothing: 0.1}
sampler: {kind: sandwich}
YAML
    echo 0 1 2 3 > subnet
    np-derive recipe.yaml -s train.steps=9 -s 'shared={policy: frozen}' --subnet subnet -o own.yaml
    grep -qx 'sampler: {kind: uniform, members: 1}' own.yaml
    grep -qx '  loss: {kind: cross_entropy, label_smoothing: 0.1}' own.yaml
    grep -qx '  steps: 9' own.yaml
    grep -qx 'shared: {policy: frozen}' own.yaml
    [ "$(grep -c '{op:' own.yaml)" -eq 6 ]
}

@test "interrupted while it waits for the subnet: exit 75, and there is no recipe" {
    tiny_recipe
    mkfifo subnet
    np-derive recipe.yaml --subnet subnet -o own.yaml 2> said &
    pid=$!
    exec 9> subnet
    kill -s TERM $pid
    ends_with 75 wait $pid
    exec 9>&-
    [ ! -e own.yaml ]
}

@test "bad input" {
    pairs_recipe
    echo 0 1 0 0 1 2 > subnet
    declined 'a recipe is needed' np-derive --subnet subnet
    declined '--subnet FILE is needed' np-derive recipe.yaml
    declined "one input alone can be standard input" np-derive - --subnet - < recipe.yaml
    refused 'subnet:1: 6 indices, not 7' np-derive -s space.blocks.2.repeat=4 recipe.yaml --subnet subnet
    echo 0 1 0 3 1 2 > wrong
    refused 'wrong:1:7: candidate 3 of block 3 is not in 0..2' np-derive recipe.yaml --subnet wrong
    : > empty
    refused "there is no subnet in 'empty'" np-derive recipe.yaml --subnet empty
    cat subnet subnet > two
    refused "'two' has more than one subnet" np-derive recipe.yaml --subnet two
    refused "--output 'pairs.tsv' would overwrite data: './pairs.tsv'" \
        np-derive recipe.yaml --subnet subnet -o pairs.tsv
    run bash -c 'np-derive recipe.yaml --subnet subnet > /dev/full'
    [ "$status" -eq 2 ]
}

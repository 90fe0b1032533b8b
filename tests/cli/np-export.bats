#!/usr/bin/env bats
# np-export: files of the safetensors format that have the weights of a checkpoint.

load common

setup() {
    fresh_directory
}

# exported FILE OPTION...: of the run a by recipe.yaml.
exported() {
    np-export recipe.yaml --run a -q -o "$@"
}

@test "every layer of every recipe has the checkpoint's values, in PyTorch's shapes" {
    every=$(cd "$NP_TREE/tests/recipes" && echo *.yaml)
    for recipe in $(some "${every//.yaml/}" 'images text'); do
        mkdir "$recipe"
        cd "$recipe"
        "$NP_TREE/tests/write-inputs" 9 6 5
        cp "$NP_TREE/tests/recipes/$recipe.yaml" recipe.yaml
        np-train recipe.yaml --run a -q > digest
        exported all
        "$NP_TREE/tests/cli/check-export" a all > tensors
        [ "$(awk '/^compared/ { print $2 }' tensors)" -gt 30 ]
        cd ..
    done
}

@test "shapes and names" {
    tiny_recipe
    np-train recipe.yaml --run a -q > digest
    exported all
    "$NP_TREE/tests/cli/check-export" a all > text
    for tensor in 'stem.token.table 256 16' 'block00.choice00.norm.gamma 16' \
        'block00.choice00.qkv.weight 48 16' 'block00.choice00.qkv.bias 48' \
        'block03.choice01.up.weight 32 16' 'block03.choice01.down.weight 16 32' \
        'head.out.weight 256 16'; do
        grep -qx "$tensor" text
    done
    rm -rf a
    image_recipe
    sed -i 's/{op: max_pool}/{op: conv2d, kernel: [1, 5], groups: 2}/' recipe.yaml
    np-train recipe.yaml --run a -q > digest
    exported all
    "$NP_TREE/tests/cli/check-export" a all > images
    for tensor in 'stem.conv.weight 8 1 3 3' 'block00.choice01.expand.weight 16 8 1 1' \
        'block00.choice01.depth.weight 16 1 3 3' 'block00.choice02.conv.weight 8 4 1 5' \
        'block05.choice00.shortcut.weight 16 8 1 1' 'head.out.weight 4 16'; do
        grep -qx "$tensor" images
    done
    lacks running images
}

@test "a subnet: its layers alone, the same bytes however it comes" {
    image_recipe
    np-train recipe.yaml --run a -q > digest
    np-evaluate recipe.yaml --run a --random 1 -q | cut -f 3 > subnet
    exported one --subnet subnet
    exported again --subnet - < subnet
    cmp one again
    exported - --subnet subnet | cmp - one
    mkfifo pipe
    cat pipe > piped &
    exported pipe --subnet subnet
    wait $!
    [ -p pipe ]
    cmp piped one
    exported all
    "$NP_TREE/tests/cli/check-export" a one > few
    "$NP_TREE/tests/cli/check-export" a all > many
    [ "$(tail -c +9 one | grep -a -o '"subnet":"[0-9 ]*"' | head -n 1)" = \
        "\"subnet\":\"$(cat subnet)\"" ]
    awk '{ for (b = 1; b <= NF; b++) printf "block%02d.choice%02d\n", b - 1, $b }' subnet > layers
    grep -v 'running\|compared' few | sort > own
    grep -f <(cat layers; echo stem; echo head) many | sort | cmp - own
}

@test "a candidate that has a part of another's weights is written with that part" {
    tiny_recipe
    np-train recipe.yaml --run a -q --set 'space.blocks=[
        {weights: entangled, choices: [{op: mha, heads: 1, hidden: 4}, {op: mha, heads: 2}]},
        {weights: entangled, choices: [{op: conv1d, kernel: 3}, {op: conv1d, kernel: 2}]}]' > digest
    cp a/recipe.yaml .
    echo 0 1 > subnet
    exported one --subnet subnet
    exported all
    # gamma, beta, 12 rows and bias, 16 x 4 and bias; gamma, beta, 2 taps and bias
    [ "$("$NP_TREE/tests/cli/check-parts" one all block00.choice00 block00.choice01 \
        block01.choice01 block01.choice00)" = $((32 + 12 * 17 + 16 * 5 + 32 + 16 * 33)) ]
}

# The first block is an inverted residual of three batch norms here; two of them, and the stem's.
@test "batch norm's statistics are those of the calibration" {
    image_recipe
    np-train recipe.yaml --run a -q > digest
    echo 1 0 0 1 0 1 0 > subnet
    exported one --subnet subnet
    "$NP_TREE/tests/cli/check-export" a one > names
    [ "$(grep -c running_mean names)" -gt 5 ]
    [ "$(grep -c running_mean names)" -eq "$(grep -c running_var names)" ]
    "$NP_TREE/tests/cli/check-statistics" images.idx one
}

@test "a checkpoint on the way, and weights that no step has trained" {
    tiny_recipe
    np-train recipe.yaml --run a -q --set train.checkpoint_every=2 > digest
    exported early -s train.checkpoint_every=2 --step 2
    "$NP_TREE/tests/cli/check-export" a early > names
    exported late -s train.checkpoint_every=2
    run cmp -s early late
    [ "$status" -eq 1 ]
    : > none
    np-train recipe.yaml --run b -q --subnets none > digest
    np-train recipe.yaml --run c -q --subnets none > digest
    np-export recipe.yaml --run b -o b.st
    np-export recipe.yaml --run c -o c.st
    cmp b.st c.st
    [ "$("$NP_TREE/tests/cli/check-export" b b.st | tail -n 1)" = 'compared 0' ]
}

@test "what cannot be exported is refused, and leaves no file" {
    tiny_recipe
    np-train recipe.yaml --run a -q > digest
    echo 0 1 2 3 > subnet
    declined '--run DIR is needed' np-export recipe.yaml -o out
    declined '--output FILE is needed' np-export recipe.yaml --run a
    declined 'a recipe is needed' np-export --run a -o out
    cat subnet subnet > two
    declined "'two' has more than one subnet" exported out --subnet two
    declined "there is no subnet in '/dev/null'" exported out --subnet /dev/null
    echo 0 1 2 9 > wrong
    declined 'wrong:1:7: candidate 9 of block 3' exported out --subnet wrong
    declined "would overwrite 'subnet'" exported subnet --subnet subnet
    declined 'would overwrite data' exported corpus.txt
    declined 'no checkpoint after 5 steps' exported out --step 5
    mkdir -p none/checkpoints
    declined "'none' has no checkpoint yet" np-export recipe.yaml --run none -o out
    declined 'another recipe' exported out -s seed=8
    declined 'No space left' exported /dev/full
    declined "cannot write 'a': Is a directory" exported a
    declined "cannot create 'absent/out'" exported absent/out
    object=$(find a/objects -type f | head -n 1)
    printf x | dd of="$object" bs=1 seek=30 conv=notrunc status=none
    echo old > before
    declined "$object" exported before
    [ "$(cat before)" = old ]
    declined "$object" exported out
    [ ! -e out ]
    [ -z "$(find . -name '.np-*')" ]
    [ "$(cat subnet)" = '0 1 2 3' ]
}

@test "a signal ends it, and leaves no file" {
    tiny_recipe
    np-train recipe.yaml --run a -q > digest
    mkfifo pipe
    exported out --subnet pipe 2> said &
    job=$!
    exec 9> pipe # returns when it is being read
    pkill -INT -P "$job" np-export
    code=0
    wait "$job" || code=$?
    exec 9>&-
    [ "$code" -eq 75 ]
    grep -q 'stopped on request' said
    [ ! -e out ]
}

@test "on a terminal: that statistics are found; nothing with -q" {
    command -v script > /dev/null || skip "no script to make a terminal"
    export TERM=vt100
    image_recipe
    np-train recipe.yaml --run a -q > digest
    np-evaluate recipe.yaml --run a --random 1 -q | cut -f 3 > subnet
    local export="np-export recipe.yaml --run a --subnet subnet -o one"
    script -qec "$export" /dev/null < /dev/null > typed
    grep -q "finding batch norm's statistics" typed
    tail -c 4 typed | grep -q $'\r\e\\[K'
    script -qec "$export -q" /dev/null < /dev/null > typed
    [ ! -s typed ]
}

@test "no file is written to a terminal" {
    tiny_recipe
    np-train recipe.yaml --run a -q > digest
    code=0
    script -qec "np-export recipe.yaml --run a -o -" /dev/null < /dev/null > typed || code=$?
    [ $code -eq 2 ]
    grep -q 'the file is not text, and standard output a terminal' typed
}

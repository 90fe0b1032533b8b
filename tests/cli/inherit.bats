#!/usr/bin/env bats
# np-train --init: a run that begins with the weights that another has trained.

load common

setup() {
    fresh_directory
}

# places: where the tensors of tensors.bin are, a line for each: its name, the first byte, counted from
# 1, and how many there are.
places() {
    local bytes
    bytes=$((8 + $(od -An -tu8 -N 8 tensors.bin)))
    head -c $bytes tensors.bin | tail -c +9 |
        jq -r --argjson from $bytes 'del(.__metadata__) | to_entries[] | .value.data_offsets as $at |
            "\(.key) \($from + $at[0] + 1) \($at[1] - $at[0])"'
}

# tensors RUN FILE OPTION...: what np-export writes of its checkpoint, a line for each tensor: its
# name and the SHA-256 of its floats.
tensors() {
    local name from count
    np-export recipe.yaml -q --run "$1" -o tensors.bin "${@:3}"
    places | while read -r name from count; do
        echo "$name $(tail -c "+$from" tensors.bin | head -c "$count" | sha256sum | cut -c 1-64)"
    done > "$2"
    rm tensors.bin
    [ -s "$2" ]
}

# weights RUN FILE OPTION...: what np-export writes of its checkpoint: where each tensor is, and all
# bytes.
weights() {
    local bytes
    np-export recipe.yaml -q --run "$1" -o tensors.bin "${@:3}"
    bytes=$((8 + $(od -An -tu8 -N 8 tensors.bin)))
    {
        head -c $bytes tensors.bin | tail -c +9 | jq 'del(.__metadata__)'
        tail -c +$((bytes + 1)) tensors.bin
    } > "$2"
    [ "$(stat -c %s "$2")" -gt $((bytes / 2)) ]
}

@test "every recipe: all layers, the bits of one process on any plan" {
    every=$(cd "$NP_TREE/tests/recipes" && echo *.yaml)
    for recipe in $(some "${every//.yaml/}" 'images entangled'); do
        mkdir "$recipe"
        cd "$recipe"
        "$NP_TREE/tests/write-inputs" 9 6 5
        cp "$NP_TREE/tests/recipes/$recipe.yaml" recipe.yaml
        np-train recipe.yaml --run old -q > digest
        weights old before
        sed -i 's/^seed: .*/seed: 4/' recipe.yaml
        np-train recipe.yaml --run a --init old --schedule sequential > digest 2> talk
        grep -Eq '^np-train: ([0-9]+) of \1 layers begin with the weights that .old. has after' talk
        weights a after --step 0
        cmp before after
        np-train recipe.yaml --run b --init old -q --stages 2 --inject-delays 3 > digest
        same a b
        cd ..
    done
}

@test "stages, memory, replicas, breaks: the same bits; the old run is needed once" {
    tiny_recipe
    np-train recipe.yaml --run old -q
    np-train recipe.yaml --run a --init old -s seed=9 -s train.checkpoint_every=2 --schedule sequential -q
    sed -i 's/^seed: .*/seed: 9/; $a\  checkpoint_every: 2' recipe.yaml
    least=$(np-train recipe.yaml --run b --init old --stages 2 --device-memory 1MiB 2>&1 > out |
        sed -n 's/.*needs at least \([0-9]*\) bytes.*/\1/p')
    [ ! -e b ]
    np-train recipe.yaml --run b --init old --stages 2 --device-memory "$least" -q
    jq -s -e '[.[] | .stages // empty | .[].made] | add == 0' b/metrics.jsonl # the stash has them
    np-train recipe.yaml --run c --init old --stages 3 --micro-batches 2 --replicas 2 -q
    np-train recipe.yaml --run d --init old --stages 2 --device-memory "$least" --stash stash -q \
        --inject-delays 4 --isa scalar
    np-partition recipe.yaml --stages 2 --profile-from model -q > plan.yaml
    np-partition recipe.yaml --stages 2 --profile-from model -q -s train.init="$(digest_of old)" |
        cmp - plan.yaml
    np-train recipe.yaml --run e --init old --plan plan.yaml --stop-after 3 -q
    ls -i e/checkpoints/0000000000.manifest > before
    np-train recipe.yaml --run e --init old --resume --stop-after 4 -q
    mv old gone
    np-train recipe.yaml --run e --init old --resume --stop-after 5 -q
    np-train recipe.yaml --run e --resume --stages 3 -q
    ls -i e/checkpoints/0000000000.manifest | cmp - before
    np-train recipe.yaml --run plain -q
    refused "cannot open 'old/recipe.yaml': No such file or directory" \
        np-train recipe.yaml --run plain --resume --init old
    for run in b c d e; do same a $run; done
    [ "$(grep -c . a/checkpoints/0000000000.manifest)" -eq 19 ] # 4, stem, head, 4 x 3, end
    np-verify --fsck a
    [ "$(tail -n 1 a/recipe.yaml)" = "  init: $(digest_of gone)" ]
}

@test "ranks: the same bits" {
    has_ranks || skip 'no MPI'
    tiny_recipe
    np-train recipe.yaml --run old -q
    np-train recipe.yaml --run a --init old --schedule sequential -q
    mpiexec -n 2 np-train recipe.yaml --run b --init old --backend mpi -q
    same a b
}

@test "a run that was ended before its first checkpoint begins again" {
    tiny_recipe
    np-train recipe.yaml --run old -q
    np-train recipe.yaml --run a --init old -q > digest
    cp -r a b
    rm -r b/checkpoints/* b/objects/* b/ledger.tsv b/metrics.jsonl
    refused "'train.init' wants the weights of the run $(digest_of old): --init says where it is" \
        np-train recipe.yaml --run b --resume
    np-train recipe.yaml --run b --resume --init old -q
    same a b
    np-train recipe.yaml --run b --resume --init old -q # nothing is left to do
    same a b
}

@test "candidates find theirs, and only theirs" {
    tiny_recipe
    np-train recipe.yaml --run old -q
    tensors old before
    # Another order, dropout and activation, one more, one less, fewer blocks, other data.
    seq 1000 3000 > corpus.txt
    sed -i '/repeat: 4/s/4/3/; /conv1d/d
        s/- {op: ffn.*/- {op: ffn, ratio: 2, act: relu}\n        - {op: ffn, ratio: 2, dropout: 0.3}/
        s/- {op: mha.*/- {op: glu}/; s/- {op: identity}/&\n        - {op: mha, heads: 2}/
        s/^seed: .*/seed: 9/' recipe.yaml
    np-train recipe.yaml --run a --init old -v 2> talk
    grep -qx "np-train: 8 of 14 layers begin with the weights that 'old' has after 6 steps" talk
    grep 'begins anew' talk > anew
    for block in 0 1 2; do
        for choice in 0 1; do echo "np-train: block0$block.choice0$choice begins anew"; done
    done | cmp - anew
    tensors a after --step 0
    for block in 0 1 2; do
        sed -n "s/^block0$block.choice00/block0$block.choice04/p
            s/^block0$block.choice01/block0$block.choice02/p" before
    done > wanted
    grep '^stem\|^head' before >> wanted
    sort wanted > sorted
    [ "$(wc -l < sorted)" -gt 30 ]
    comm -12 sorted <(sort after) | cmp - sorted
    # The others have the values of their addresses: those of a run that did not train them.
    yes '3 3 3' | head -n 6 > subnets
    np-train recipe.yaml --run plain --subnets subnets -q
    tensors plain fresh
    grep 'choice0[01]' after > new
    grep 'choice0[01]' fresh | cmp - new
    [ "$(wc -l < new)" -gt 15 ]
}

@test "equal candidates take in their order, one each" {
    tiny_recipe
    sed -i '/- {op: /d' recipe.yaml
    sed -i 's/choices:/& [{op: ffn}, {op: ffn}, {op: glu}]/' recipe.yaml
    np-train recipe.yaml --run old -q
    tensors old before
    sed -i 's/choices:.*/choices: [{op: glu}, {op: ffn}, {op: ffn}, {op: ffn}]/' recipe.yaml
    np-train recipe.yaml --run a --init old 2> talk
    grep -q '^np-train: 14 of 18 layers' talk
    tensors a after --step 0
    # Number 1 has its own number's, before any other may take it; number 2 the first that is left, 0; number 3 nothing.
    sed 's/choice02/choice09/; s/choice00/choice02/; s/choice09/choice00/' before | sort > wanted
    grep -v choice03 after | sort | cmp - wanted
}

@test "a candidate of the same number goes before others that are like it" {
    tiny_recipe
    sed -i '/- {op: /d' recipe.yaml
    sed -i 's/choices:/& [{op: glu}, {op: ffn}]/' recipe.yaml
    np-train recipe.yaml --run old -q
    tensors old before
    sed -i 's/choices:.*/choices: [{op: ffn}, {op: ffn}]/' recipe.yaml
    np-train recipe.yaml --run a --init old -v 2> talk
    [ "$(grep -c 'block0[0-3].choice00 begins anew' talk)" -eq 4 ]
    tensors a after --step 0
    grep choice01 before | cmp - <(grep choice01 after)
}

@test "what a run keeps is not written over by one that begins with it" {
    tiny_recipe
    np-train recipe.yaml --run old -q
    for option in '--losses old/ledger.tsv' '--trace old/run.json' \
        '--device-memory 1GiB --stash old/objects/x'; do
        # shellcheck disable=SC2086
        run np-train recipe.yaml --run a --init old $option
        [ "$status" -eq 2 ]
        [[ $output == *'would overwrite what the run keeps there'* ]]
        [ ! -e a ]
    done
    np-verify --fsck old
}

# shaped WEIGHTS CHOICES: image_recipe's with two blocks of these candidates.
shaped() {
    image_recipe
    sed -i "/^  blocks:/,/^  head:/{//!d}" recipe.yaml
    sed -i "s/^  blocks:/&\n    - {repeat: 2, weights: $1, choices: [$2]}/" recipe.yaml
}

@test "parts of a layer: a larger one from a smaller, a smaller from a larger, and of its own" {
    unsanitized
    large='{op: mbconv, kernel: 5, expand: 4}'
    small='{op: mbconv, kernel: 3, expand: 2}'
    shaped entangled "$large"
    np-train recipe.yaml --run old -q
    tensors old large --subnet <(echo 0 0)
    # Progressive shrinking: the small one begins with its part of the large one.
    shaped entangled "$small, $large"
    np-train recipe.yaml --run both --init old 2> talk
    grep -q '^np-train: 6 of 6 layers' talk # also the small ones: a part of the large one
    tensors both again --step 0 --subnet <(echo 1 1)
    sed 's/choice01/choice00/' again | cmp - large
    # A space of the small one alone, a layer of its own, begins with the part that it was.
    tensors both wanted --subnet <(echo 0 0)
    shaped own "$small"
    np-train recipe.yaml --run alone --init both -q
    tensors alone is --step 0 --subnet <(echo 0 0)
    cmp wanted is
    # And back: a part of the large one.
    tensors alone wanted --subnet <(echo 0 0)
    shaped entangled "$large, $small"
    np-train recipe.yaml --run back --init alone 2> talk
    grep -q '^np-train: 6 of 6 layers' talk # also the small ones: a part of the large one
    tensors back is --step 0 --subnet <(echo 1 1)
    sed 's/choice01/choice00/' is | cmp - wanted
    # Of candidates that were layers of their own the last has what both could give.
    shaped own "$large, $small"
    np-train recipe.yaml --run apart -q
    tensors apart wanted --subnet <(echo 1 1)
    tensors apart other --subnet <(echo 0 0)
    shaped entangled "$large, $small"
    np-train recipe.yaml --run joined --init apart -q
    tensors joined is --step 0 --subnet <(echo 1 1)
    cmp wanted is
    tensors joined is --step 0 --subnet <(echo 0 0)
    run cmp -s other is
    [ "$status" -eq 1 ]
}

# floats RUN FILE TENSOR OPTION...: those of the subnet of zeros, one a line.
floats() {
    local from count
    np-export recipe.yaml -q --run "$1" -o tensors.bin --subnet <(echo 0 0) "${@:4}"
    read -r _ from count < <(places | grep "^$3 ")
    tail -c "+$from" tensors.bin | head -c "$count" | od -An -v -tx4 -w4 > "$2"
}

@test "the rest of a layer of which a part is inherited has the values of its address" {
    shaped own '{op: mbconv, kernel: 3, expand: 2}'
    np-train recipe.yaml --run old -q
    shaped entangled '{op: mbconv, kernel: 5, expand: 4}, {op: mbconv, kernel: 3, expand: 2}, {op: zero}'
    sed -i 's/^seed: .*/seed: 9/' recipe.yaml
    np-train recipe.yaml --run a --init old -q
    yes '2 2' | head -n 6 > zeros # they train none of it
    np-train recipe.yaml --run plain -q --subnets zeros
    floats a inherited block00.choice00.expand.weight --step 0
    floats plain fresh block00.choice00.expand.weight
    # [32][8], of which the small one has the first 16 rows
    [ "$(wc -l < fresh)" -eq 256 ]
    tail -n 128 fresh | cmp - <(tail -n 128 inherited)
    [ "$(paste fresh inherited | head -n 128 | awk '$1 == $2' | wc -l)" -eq 0 ]
}

@test "the stem and the head take what fits: a longer text, other classes" {
    unsanitized
    tiny_recipe
    np-train recipe.yaml --run old -q
    tensors old before
    sed -i 's/length: 8/length: 12/' recipe.yaml
    np-train recipe.yaml --run a --init old 2> talk
    grep -q '^np-train: 14 of 14 layers' talk
    tensors a after --step 0
    join <(sort before) <(sort after) | awk '$2 != $3 { print $1 }' > other
    [ "$(cat other)" = stem.position.table ]
    image_recipe
    sed -i 's/classifier}/classifier, features: 12}/' recipe.yaml
    np-train recipe.yaml --run images -q
    tensors images before
    sed -i 's/classes: 4/classes: 7/' recipe.yaml
    np-train recipe.yaml --run b --init images 2> talk
    tensors b after --step 0
    join <(sort before) <(sort after) | awk '$2 != $3 { print $1 }' > other
    [ "$(xargs < other)" = 'head.out.bias head.out.weight' ]
    [ "$(grep -c '^head.features' after)" -gt 0 ] # they are the old run's
}

@test "what fits nowhere: other classes, other shapes" {
    image_recipe
    np-train recipe.yaml --run old -q
    sed -i 's/classes: 4/classes: 7/' recipe.yaml
    np-train recipe.yaml --run a --init old 2> talk
    layers=$(sed -n 's/^np-train: \([0-9]*\) of \([0-9]*\) layers .*/\1 \2/p' talk)
    [ "$((${layers% *} + 1))" -eq "${layers#* }" ]
    sed -i 's/^  width: 8/  width: 6/' recipe.yaml
    np-train recipe.yaml --run b --init old > digest 2> talk # the blocks after the stride are as wide
    tiny_recipe
    refused "'old' has no layer with weights for one of 'recipe.yaml'" \
        np-train recipe.yaml --run c --init old
}

@test "which checkpoint: the latest, one of a step, the one that the recipe names" {
    tiny_recipe
    np-train recipe.yaml --run old -q -s train.checkpoint_every=2 > digest
    digest=$(sha256sum < old/checkpoints/0000000002.manifest | cut -c 1-64)
    np-train recipe.yaml --run a --init old --init-step 2 -q
    np-train recipe.yaml --run b --init old -s train.init="$digest" -q
    same a b
    np-train recipe.yaml --run c --init old -q
    [ "$(digest_of a)" != "$(digest_of c)" ]
    refused "'old' has no checkpoint after 3 steps" \
        np-train recipe.yaml --run d --init old --init-step 3
    refused "'old' has digest $(digest_of old) after 6 steps, not the one that 'train.init' says" \
        np-train recipe.yaml --run d --init old --init-step 6 -s train.init="$digest"
    refused "'a' has no checkpoint of digest $digest, which 'train.init' says" \
        np-train recipe.yaml --run d --init a -s train.init="$digest"
    refused "'train.init' wants the weights of the run $digest: --init says where it is" \
        np-train recipe.yaml --run d -s train.init="$digest"
    refused "--set train.init=x: 'init' is the digest of a run, 64 lower-case hexadecimal digits, not 'x'" \
        np-train recipe.yaml --run d -s train.init=x
    refused "cannot open 'nowhere/recipe.yaml': No such file or directory" \
        np-train recipe.yaml --run d --init nowhere
    run np-train recipe.yaml --run d --init-step 1
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == 'np-train: --init-step is for --init' ]]
}

@test "its scores and exports are had with the recipe as it was written" {
    tiny_recipe
    np-train recipe.yaml --run old -q
    np-train recipe.yaml --run a --init old -q -s train.checkpoint_every=3
    np-evaluate recipe.yaml -s train.checkpoint_every=3 --run a --step 0 --random 3 -q > zero
    np-evaluate recipe.yaml --run old --random 3 -q | cmp - zero
    # an evaluation in training begins with that
    np-train recipe.yaml --run b --init old -q --eval-every 4 --eval-subnets 3 --stop-after 1
    np-train recipe.yaml --run b --resume -q --eval-every 4 --eval-subnets 3
    [ "$(jq -r 'select(has("valid_loss")).step' b/metrics.jsonl | xargs)" = '0 1 4 6' ]
    jq -r 'select(has("valid_loss") and .step == 0).subnets[]' b/metrics.jsonl > said
    awk '{ printf "%.6g\n", $1 }' zero | cmp - said
    np-export recipe.yaml -s train.checkpoint_every=3 --run a -o file -q
    np-export recipe.yaml --run old -s train.init="$(digest_of a)" -o file -q # nor has it any
}

# forged RUN STEP SCRIPT: a manifest that sed has edited, with the end that fits.
forged() {
    local manifest
    manifest=$1/checkpoints/$(printf %010d "$2").manifest
    sed '/^end /d' "$manifest" | sed "$3" > text
    { head -n 4 text; tail -n +5 text | sort -k 3; } > "$manifest"
    echo "end $(sha256sum < "$manifest" | cut -c 1-64)" >> "$manifest"
    rm text
}

@test "a line that is missing is damage, as is one without an update elsewhere" {
    tiny_recipe
    np-train recipe.yaml --run old -q
    np-train recipe.yaml --run a --init old -q
    layer=$(awk '$2 == 0 { print $3; exit }' a/checkpoints/0000000006.manifest)
    line=$(grep " $layer\$" a/checkpoints/0000000006.manifest)
    lacks "$layer" old/checkpoints/0000000006.manifest
    cp -r a b
    forged b 6 "/ $layer/d"
    refused "b/checkpoints/0000000006.manifest: damaged manifest: layer '$layer' is missing" \
        np-train recipe.yaml --run b --resume
    rm -r b
    cp -r a b
    forged b 0 '/ stem/d'
    run np-verify --fsck b
    [ "$status" -eq 1 ]
    said "np-verify: b/checkpoints/0000000000.manifest: damaged manifest: layer 'stem' has not all its versions"
    forged old 6 "\$a\\$line"
    refused "old/checkpoints/0000000006.manifest: damaged manifest: layer '$layer' has a line without an update" \
        np-train recipe.yaml --run old --resume
}

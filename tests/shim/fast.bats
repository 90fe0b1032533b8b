#!/usr/bin/env bats
# Trainings by fast numerics, on the shim's GPUs and cuBLASLt, whose bits depend on the algorithm
# and on the rows of every product: whatever the plan is, they are the same.

load ../cli/common

setup() {
    fresh_directory
    export SHIM_SEED=1 SHIM_ARCH=90
    PATH=$NP_BIN/shim:$PATH
}

# fast NAME: recipe.yaml, whose first line is `naspipe`, has numerics.
fast() {
    sed -i "1a numerics: fast/$1" recipe.yaml
}

gpu() {
    np-train recipe.yaml --backend cuda -q "$@" > /dev/null
}

# The first loss of a run, and the last.
losses() {
    cut -f 5 "$1/ledger.tsv" | sed -n '1p;$p' | paste -sd' '
}

@test "stages, micro-batches, replicas, windows, orders of work: the same bits" {
    unsanitized
    evaluated=(--eval-every 3 --eval-subnets 3 --eval-batches 2)
    for type in tf32 bf16; do
        rm -rf ./*
        tiny_recipe
        fast "sm_90-$type"
        gpu --run one --schedule sequential "${evaluated[@]}"
        [ "$type" = tf32 ] && cuts="1 2 4" || cuts=4
        for cut in $cuts; do # stages, and micro-batches in another order
            SHIM_SEED=$cut gpu --run "cut$cut" -n "$cut" -M $((4 / cut)) -W 3 \
                --inject-delays "$cut" "${evaluated[@]}"
            same one "cut$cut"
        done
        gpu --run replicas --replicas 2 -n 2 "${evaluated[@]}"
        same one replicas
    done
}

@test "images and pairs: products of every pass, whatever the cuts" {
    for recipe in $(some "image_recipe pairs_recipe" image_recipe); do
        rm -rf ./*
        $recipe
        fast sm_90-tf32
        gpu --run one --schedule sequential
        for stages in $(some 3 2); do
            gpu --run "run$stages" -n "$stages"
            same one "run$stages"
        done
    done
}

@test "several GPUs, and layers that come and go" {
    unsanitized
    tiny_recipe
    fast sm_90-bf16
    gpu --run one
    SHIM_DEVICES=2 gpu --run peers --devices 1,0 -n 4 --cut balanced
    SHIM_DEVICES=2 SHIM_PEERS=0 gpu --run nccl --devices 0,1
    same one peers
    same one nccl
    run np-train recipe.yaml --backend cuda --run r -n 2 --window 1 --device-memory 1
    least=$(sed -n 's/.* at least \([0-9]*\) bytes.*/\1/p' <<< "$output")
    for budget in "$least" $((least + 8192)); do
        gpu --run "memory$budget" -n 2 --window 1 --device-memory "$budget"
        same one "memory$budget"
    done
}

@test "what was chosen stays: stopped and resumed where the library advises otherwise" {
    unsanitized
    tiny_recipe
    fast sm_90-tf32
    gpu --run one
    head -n 4 one/products.txt
    [ "$(head -n 4 one/products.txt)" = "naspipe products/1
numerics fast/sm_90-tf32
gpu shim, compute capability 9.0, 4 multiprocessors
library cuBLASLt 12.0.0" ]
    sed -n '5,/^end/p' one/products.txt | grep -v '^end ' > products
    grep -Evc '^[0-9]+ [0-9]+ [0-9]+ (nn|nt|tn) [0-9a-f]{128}$' products && false
    LC_ALL=C sort -k1,1n -k2,2n -k3,3n -k4,4 -c products
    SHIM_LT_ADVICE=1 gpu --run other
    run np-verify one other
    [ "$status" -eq 1 ]
    gpu --run two --stop-after 3
    cmp one/products.txt two/products.txt # no others are to come
    SHIM_LT_ADVICE=1 gpu --run two --resume -n 2
    same one two
    gpu --run three --stop-after 1
    cmp -s one/products.txt three/products.txt && false
    SHIM_LT_ADVICE=0 gpu --run three --resume -n 3 -M 1
    same one three
}

@test "a run that is killed goes on with its bits" {
    unsanitized
    tiny_recipe
    sed -i 's/steps: 6/steps: 12/; s/^train:/&\n  checkpoint_every: 4/' recipe.yaml
    fast sm_90-tf32
    gpu --run one
    for after in 1 6; do
        mkfifo losses
        np-train recipe.yaml --backend cuda -q --run "run$after" --losses losses > out 2> talk &
        pid=$!
        exec 9< losses
        for ((i = 0; i < after; i++)); do read -r -u 9 _; done
        kill -s KILL $pid
        wait $pid || true
        exec 9<&-
        rm losses
        # What had been chosen is kept; from the third step on that is all.
        advice=0
        [ "$after" -lt 4 ] || advice=1
        SHIM_LT_ADVICE=$advice gpu --run "run$after" --resume -n 2
        same one "run$after"
    done
}

@test "the loss goes down, close to the portable one" {
    unsanitized
    tiny_recipe
    sed -i 's/steps: 6/steps: 20/; s/^train:/&\n  optimizer: {kind: adamw, lr: 0.01}/' recipe.yaml
    cp recipe.yaml portable.yaml
    np-train portable.yaml --run portable --backend cuda -q > /dev/null
    [ ! -e portable/products.txt ]
    read -r _ last < <(losses portable)
    for type in tf32 bf16; do
        cp portable.yaml recipe.yaml
        fast "sm_90-$type"
        gpu --run "$type"
        read -r first end < <(losses "$type")
        between 5 "$first" 6
        between 0 "$end" "$(awk -v x="$first" 'BEGIN { print x - 1 }')"
        between "$(awk -v x="$last" 'BEGIN { print x - 0.1 }')" "$end" \
            "$(awk -v x="$last" 'BEGIN { print x + 0.1 }')"
        cmp -s "$type/ledger.tsv" portable/ledger.tsv && false
        cut -f 3 "$type/ledger.tsv" >> prints
    done
    [ "$(sort prints | uniq -d | wc -l)" -eq 0 ]
}

@test "what does not compute a recipe's numerics is refused" {
    unsanitized
    mkdir naspipe
    tiny_recipe
    fast sm_90-tf32
    at='recipe.yaml:2:11: numerics fast/sm_90-tf32'
    needs='they need a GPU of compute capability 9.0, and --backend cuda'
    refused "$at: $needs" np-train recipe.yaml --run r
    refused "$at: $needs" np-partition recipe.yaml
    needs='they need compute capability 9.0, and CUDA device 0 has 8.0'
    for backend in cuda auto; do
        SHIM_ARCH=80 refused "$at: $needs" np-train recipe.yaml --run r --backend $backend
        SHIM_ARCH=80 refused "$at: $needs" np-partition recipe.yaml --backend $backend
    done
    SHIM_DEVICES=0 refused \
        "$at: there is no CUDA device here: no CUDA-capable device is detected" \
        np-train recipe.yaml --run r --backend auto
    refused "--set numerics=fast/sm_86-bf16: numerics fast/sm_86-bf16: they need a GPU of compute \
capability 8.6, and --backend cuda" np-train recipe.yaml --set numerics=fast/sm_86-bf16 --run r
    model='%d, compute capability 9.0, 4 multiprocessors'
    # shellcheck disable=SC2059 # the model is the format
    SHIM_MODEL=A%d SHIM_DEVICES=2 refused "$at: they need GPUs of one model, and CUDA device 1 is \
$(printf "A$model" 1), device 0 $(printf "A$model" 0)" \
        np-train recipe.yaml --run r --backend cuda --devices 1,0
    np-train recipe.yaml --run found -q --backend auto
    [ "$(jq -r .backend found/run.json)" = cuda ]
    [[ "$(jq -r .gpu found/run.json)" == 'shim, driver for 12.0, fast/sm_90-tf32, cuBLASLt 12.0.0' ]]
    run "$NP_BIN/np-train" recipe.yaml --run r --backend cuda
    [ "$status" -eq 2 ]
}

@test "another GPU or library: neither compared nor continued" {
    unsanitized
    tiny_recipe
    cp recipe.yaml portable.yaml
    fast sm_90-tf32
    gpu --run a
    by='numerics fast/sm_90-tf32, cuBLASLt 12.0.0 on shim, compute capability 9.0, 4'
    by+=' multiprocessors'
    SHIM_MODEL=other gpu --run b --stop-after 3
    SHIM_LT_VERSION=120001 gpu --run c
    np-train portable.yaml --run d -q --backend cuda
    not='have not the same arithmetic and cannot be compared'
    refused "'a' ($by) and 'b' (${by/shim/other}) $not" np-verify a b
    refused "'a' ($by) and 'c' (${by/12.0.0/12.0.1}) $not" np-verify a c
    refused "'d' (portable numerics, without a products.txt) and 'a' ($by) $not" np-verify d a
    refused "'b' cannot go on here: it was made with ${by/shim/other}; here is $by" \
        np-train recipe.yaml --run b --resume --backend cuda
    SHIM_MODEL=other gpu --run b --resume
    np-verify --fsck b
}

@test "np-export has the weights of fast numerics, not a subnet's statistics" {
    image_recipe
    fast sm_90-tf32
    gpu --run a --stop-after 3
    np-export recipe.yaml --run a -q -o all
    "$NP_TREE/tests/cli/check-export" a all > tensors
    [ "$(awk '/^compared/ { print $2 }' tensors)" -gt 10 ]
    blocks=$(sed '/^numerics/d' recipe.yaml | np-partition - --estimate --profile-from model -q |
        cut -f 1 | grep "^block[0-9]" | sort -u | wc -l)
    yes 0 | head -n "$blocks" | paste -sd ' ' > subnet
    run np-export recipe.yaml --run a -q --subnet subnet -o some
    [ "$status" -eq 2 ]
    said "np-export: error: recipe.yaml:2:11: batch norm's statistics are found by portable numerics alone, not fast/sm_90-tf32"
    [ ! -e some ]
}

@test "a list of products that is damaged, or gone, is news" {
    tiny_recipe
    fast sm_90-bf16
    gpu --run a --stop-after 3
    cp -r a b
    for offset in 60 300 -3; do
        cp a/products.txt b/products.txt
        flip b/products.txt $offset
        run np-train recipe.yaml --run b --resume --backend cuda
        [ "$status" -eq 2 ]
        [[ ${lines[0]} == 'np-train: error: b/products.txt: damaged list of products: '* ]]
        run np-verify --fsck b
        [ "$status" -eq 1 ]
        [[ $output == *'b/products.txt: damaged list of products: '* ]]
        run np-verify a b
        [ "$status" -eq 2 ]
    done
    head -c 400 a/products.txt > b/products.txt
    run np-train recipe.yaml --run b --resume --backend cuda
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == *'damaged list of products: its last line is not there' ]]
    # A digest that fits does not make another file of it a list.
    for wrong in '8 8 8 nn 00' '8 8 0 nn' '8 8 8 xn' '8 8 8 nnn' x; do
        { head -n 4 a/products.txt; printf '%s\n' "$wrong"; } > lines
        { cat lines; echo "end $(sha256sum < lines | cut -c 1-64)"; } > b/products.txt
        run np-train recipe.yaml --run b --resume --backend cuda
        [ "$status" -eq 2 ]
        said 'np-train: error: b/products.txt:5: damaged list of products: not a product and its algorithm'
    done
    rm b/products.txt
    run np-train recipe.yaml --run b --resume --backend cuda
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == *'it was made with portable numerics, without a products.txt; here is '* ]]
    run np-verify --fsck b
    [ "$status" -eq 1 ]
    [[ $output == *'b/products.txt: of numerics portable/1, not fast/sm_90-bf16'* ]]
}

@test "cuBLASLt that fails ends the run with its cause, and nothing is lost" {
    tiny_recipe
    fast sm_90-tf32
    gpu --run one
    gpu --run run --stop-after 2
    for call in cublasLtCreate:1 cublasLtMatmulDescInit:3 cublasLtMatmulDescSetAttribute:4 \
        cublasLtMatmul:40; do
        SHIM_FAIL=$call run np-train recipe.yaml --backend cuda --run run -q --resume -n 2
        [ "$status" -eq 2 ]
        [[ ${lines[0]} == 'np-train: error: cuBLASLt '* ]] || { echo "$call: $output"; return 1; }
    done
    for call in cublasLtMatmulAlgoGetHeuristic:2 cublasLtMatmulPreferenceSetAttribute:2; do
        rm -rf new
        SHIM_FAIL=$call run np-train recipe.yaml --backend cuda --run new -q
        [ "$status" -eq 2 ]
        [[ ${lines[0]} == 'np-train: error: cuBLASLt has no algorithm for a product of '* ]]
    done
    gpu --run run --resume
    same one run
}

@test "np-partition measures these kernels, and keeps their times apart" {
    unsanitized
    tiny_recipe
    cp recipe.yaml portable.yaml
    fast sm_90-tf32
    export XDG_CACHE_HOME=$PWD
    np-partition portable.yaml --backend cuda -n 2 -M 2 -q -o portable-plan.yaml
    np-partition recipe.yaml --backend cuda -n 2 -M 2 -q -o plan.yaml
    [ "$(cut -d'|' -f2,3 naspipe/profile.tsv | sort -u)" = "\
shim, driver for 12.0, fast/sm_90-tf32, cuBLASLt 12.0.0|cuda-fast
shim, driver for 12.0|cuda" ]
    gpu --run one
    gpu --run planned --plan plan.yaml
    same one planned
}

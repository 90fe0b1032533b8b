#!/usr/bin/env bats
# Whole trainings on the shim's GPUs: the digests, ledgers and scores of processors. What nothing
# orders is reported in whatever order it is done (tests/shim/races.h), so that one seed each is
# enough; it is the name's, so that a test that is run alone has the same.

load ../cli/common

setup() {
    fresh_directory
    SHIM_SEED=$(cksum <<< "$BATS_TEST_DESCRIPTION" | cut -d' ' -f1)
    export SHIM_SEED
    PATH=$NP_BIN/shim:$PATH
    cpu=$NP_BIN/np-train
}

# races CALL OPTION...: recipe.yaml's training without these waits is noticed, whatever the order of
# work comes to (tests/shim/races.h).
races() {
    if [ "${NP_TEST_FULL:-1}" != 1 ]; then
        echo "# not tried without $1: sanitized, what kernels touch is not seen" >&3
        return
    fi
    rm -rf skip
    SHIM_SKIP=$1 run gpu recipe.yaml --run skip "${@:2}"
    [ "$status" -eq 134 ]
    [[ $output == *'shim: race: '*', in no order'* ]] || { echo "$output"; return 1; }
}

gpu() {
    np-train "$1" --backend cuda -q "${@:2}" > /dev/null
}

# ranks N OPTION...: recipe.yaml's training by so many ranks of an MPI job, on GPUs.
ranks() {
    timeout -s KILL 120 mpiexec -n "$1" np-train recipe.yaml --backend mpi-cuda -q "${@:2}" \
        > /dev/null
}

# equal OPTION...: recipe.yaml gives the same on 1 and 4 stages, each in an order of its own.
equal() {
    "$cpu" recipe.yaml --run cpu -q --schedule sequential "$@"
    for stages in $(some "1 4" 2); do
        SHIM_SEED=$((40 + stages)) gpu recipe.yaml --run "gpu$stages" -n "$stages" "$@"
        same cpu "gpu$stages"
    done
}

@test "text: any number of stages gives a processor's bits" {
    unsanitized
    tiny_recipe
    equal --eval-every 3 --eval-subnets 3 --eval-batches 2
    gpu recipe.yaml --run delayed -n 3 -M 2 -W 4 --inject-delays 2 --eval-every 3 --eval-subnets 3 \
        --eval-batches 2
    same cpu delayed
}

@test "more positions than kernels count are refused" {
    cat > recipe.yaml << 'YAML'
naspipe: recipe/1
data: {train: {kind: idx, files: [images, labels]}}
space:
  input: {kind: images, height: 4096, width: 4096, channels: 1, classes: 4}
  width: 2
  stem: {op: conv2d, kernel: 1, norm: none}
  blocks: [{choices: [{op: identity}]}]
  head: {op: classifier, norm: none}
train: {steps: 1, batch: 128, grain: 1}
YAML
    local plan=(np-partition recipe.yaml --profile-from model -n 1 -o plan.yaml)
    local gpu=(--backend cuda --device-memory 139GiB)
    run "${plan[@]}" "${gpu[@]}" -M 1
    [ "$status" -eq 2 ]
    said "np-partition: error: 'recipe.yaml': 128 samples of a micro-batch, at 16777216 positions each, are more than GPUs take: 2147483647 positions (see --micro-batches)"
    run np-train recipe.yaml --run a "${gpu[@]}" -n 1 -M 1
    [ "$status" -eq 2 ]
    said "np-train: error: 'recipe.yaml': 128 samples of a micro-batch, at 16777216 positions each, are more than GPUs take: 2147483647 positions (see --micro-batches)"
    "${plan[@]}" "${gpu[@]}" -M 2
    "${plan[@]}" -M 1 # processors do
}

@test "text: every kind of layer, and a clip by the layer's norm" {
    seq 1 2000 > corpus.txt
    sed 's/^train:/&\n  clip: {kind: layer, limit: 0.05}/' "$NP_TREE/tests/recipes/text.yaml" \
        > recipe.yaml
    equal
}

@test "text: rotary positions, RMS norms, parts without biases" {
    unsanitized
    seq 1 2000 > corpus.txt
    cp "$NP_TREE/tests/recipes/rotary.yaml" recipe.yaml
    equal -s train.steps=4
}

@test "images: batch norm, its calibration, cells and changing shapes" {
    unsanitized
    image_recipe
    equal --eval-every 3 --eval-subnets 3 --eval-batches 2
}

@test "images: candidates that have parts of one layer's weights" {
    unsanitized
    image_recipe
    equal --eval-every 6 --eval-subnets 2 --eval-batches 1 -s 'sampler={members: 3}' -s 'space.blocks=[
        {repeat: 3, weights: entangled, choices: [{op: mbconv, kernel: 5, expand: 3, se: 2},
            {op: mbconv, kernel: [3, 2], expand: 1, se: 4}, {op: mbconv, hidden: 20}, {op: identity},
            {op: mha, heads: 4, hidden: 12}, {op: mha, heads: 1, hidden: 5}]}]'
}

@test "images: widths that are a choice" {
    unsanitized
    image_recipe
    equal --eval-every 6 --eval-subnets 2 --eval-batches 1 -s 'sampler={members: 3}' -s 'space.blocks=[
        {repeat: 2, widths: [3, 6, 8], tie_widths: t, weights: entangled, choices: [{op: mbconv,
            expand: 2}, {op: identity}, {op: mha, heads: 2, hidden: 6}, {op: norm, act: relu}]},
        {widths: [4, 16], stride: 2, choices: [{op: conv2d}, {op: zero}]}]'
}

@test "pairs: an encoder, a decoder, and shared layers read with a delay" {
    pairs_recipe
    sed -i 's/^train:/shared: {policy: delay, steps: 3}\n&/' recipe.yaml
    equal
}

@test "groups of subnets, replicas, several GPUs, the sequential reference" {
    unsanitized
    tiny_recipe
    sed -i 's/^train:/sampler: {kind: uniform, members: 2}\n&/' recipe.yaml
    "$cpu" recipe.yaml --run cpu -q
    gpu recipe.yaml --run a --replicas 2 -n 2
    SHIM_DEVICES=3 gpu recipe.yaml --run b --devices 2,0,1 -n 4
    SHIM_DEVICES=2 gpu recipe.yaml --run d --devices 1,0 --replicas 2 -n 2
    gpu recipe.yaml --run c --schedule sequential
    same cpu a
    same cpu b
    same cpu c
    same cpu d
    SHIM_DEVICES=3 SHIM_PEERS=0 refused '3 ranks or GPUs cannot be dealt evenly to 2 replicas' \
        np-train recipe.yaml --run r --backend cuda --devices 0,1,2 --replicas 2 -n 1
    SHIM_DEVICES=2 SHIM_PEERS=0 refused 'CUDA device 0 cannot reach the memory of device 1' \
        np-train recipe.yaml --run r --backend cuda --devices 0,1 --transport peer
}

# A kernel that touches the memory of a GPU that its own has not been enabled to reach is killed.
@test "several GPUs: what crosses a cut is copied" {
    tiny_recipe
    evaluated=(--eval-every 3 --eval-subnets 3 --eval-batches 2)
    "$cpu" recipe.yaml --run cpu -q "${evaluated[@]}"
    export SHIM_DEVICES=4
    gpu recipe.yaml --run two --devices 1,0 -n 4 -M 2 -W 4 "${evaluated[@]}"
    gpu recipe.yaml --run four --devices 0,1,2,3 --cut balanced --inject-delays 2 "${evaluated[@]}"
    same cpu two
    same cpu four
}

@test "several GPUs: what an encoder gives to every stage, cells, and layers that move" {
    unsanitized
    for recipe in pairs_recipe image_recipe; do
        rm -rf ./*
        $recipe
        "$cpu" recipe.yaml --run cpu -q
        for gpus in 0,1 0,1,2,3; do
            SHIM_DEVICES=4 gpu recipe.yaml --run "gpu$gpus" --devices "$gpus" -n 4 --cut balanced
            same cpu "gpu$gpus"
            SHIM_DEVICES=4 SHIM_PEERS=0 gpu recipe.yaml --run "nccl$gpus" --devices "$gpus" -n 4 \
                --cut balanced
            same cpu "nccl$gpus"
        done
    done
}

@test "GPUs that do not reach each other: NCCL carries" {
    unsanitized
    tiny_recipe
    export SHIM_DEVICES=4 SHIM_PEERS=0
    evaluated=(--eval-every 3 --eval-subnets 3 --eval-batches 2)
    "$cpu" recipe.yaml --run cpu -q "${evaluated[@]}"
    gpu recipe.yaml --run two --devices 1,0 "${evaluated[@]}"
    gpu recipe.yaml --run both --devices 0,3 -n 4 -M 2 -W 4 "${evaluated[@]}"
    gpu recipe.yaml --run four --devices 3,1,2,0 --cut balanced --inject-delays 2 "${evaluated[@]}"
    for run in two both four; do
        same cpu "$run"
        [ "$(jq -r .transport "$run/run.json")" = nccl ]
    done
    np-partition recipe.yaml -n 3 -M 2 --window 3 --profile-from model -q |
        sed -E 's/(last: (block03|head),)( in_flight: [0-9]+,)?/\1 in_flight: 1,/' > few.yaml
    [ "$(grep -c 'in_flight: 1,' few.yaml)" -eq 2 ]
    for gpus in 0,3,1 0; do # slots that others have just left
        gpu recipe.yaml --run "few$gpus" --devices "$gpus" --plan few.yaml "${evaluated[@]}"
        same cpu "few$gpus"
    done
    SHIM_PEERS=1 gpu recipe.yaml --run forced --devices 0,1 --transport nccl "${evaluated[@]}"
    [ "$(jq -r .transport forced/run.json)" = nccl ]
    same cpu forced
    gpu recipe.yaml --run some --devices 0,1 -n 4 --window 1 --device-memory 4900KiB \
        "${evaluated[@]}"
    same cpu some
}

@test "replicas on GPUs that do not reach each other, and on those of ranks" {
    unsanitized
    tiny_recipe
    sed -i 's/^train:/sampler: {members: 2}\nshared: {steps: 2}\n&/' recipe.yaml
    export SHIM_PEERS=0
    evaluated=(--eval-every 3 --eval-subnets 3 --eval-batches 2)
    "$cpu" recipe.yaml --run cpu -q "${evaluated[@]}"
    SHIM_DEVICES=2 gpu recipe.yaml --run two --devices 1,0 --replicas 2 -n 2 "${evaluated[@]}"
    SHIM_DEVICES=4 gpu recipe.yaml --run four --devices 3,1,2,0 --replicas 2 -M 4 -W 4 \
        --inject-delays 2 "${evaluated[@]}"
    same cpu two
    same cpu four
    [ "$(jq -r .transport four/run.json)" = nccl ]
    SHIM_DEVICES=3 gpu recipe.yaml --run three --devices 0,1,2 --replicas 3 -M 3 \
        --device-memory 64MiB -s train.batch=12 -s train.grain=2
    "$cpu" recipe.yaml --run cpu3 -q -s train.batch=12 -s train.grain=2
    same cpu3 three
    if has_ranks; then
        SHIM_DEVICES=2 ranks 4 --run ranks --replicas 2 -M 2 "${evaluated[@]}"
        same cpu ranks
    fi
    rm -rf ./*
    image_recipe
    members=(-s 'sampler={members: 2}')
    "$cpu" recipe.yaml --run cpu -q "${members[@]}" "${evaluated[@]}"
    for peers in 0 1; do
        SHIM_DEVICES=4 SHIM_PEERS=$peers gpu recipe.yaml --run "peers$peers" --devices 0,1,2,3 \
            --replicas 2 "${members[@]}" "${evaluated[@]}"
        same cpu "peers$peers"
    done
}

@test "ranks of an MPI job: a GPU each or a share of one" {
    unsanitized
    has_ranks || skip 'this build has no MPI, or there is no mpiexec'
    tiny_recipe
    evaluated=(--eval-every 3 --eval-subnets 3 --eval-batches 2)
    "$cpu" recipe.yaml --run cpu -q "${evaluated[@]}"
    SHIM_DEVICES=3 ranks 3 --run three -M 2 -W 4 "${evaluated[@]}"
    ranks 2 --run shared -n 4 --inject-delays 2 "${evaluated[@]}"
    SHIM_DEVICES=2 ranks 2 --run few --devices 1,0 --window 1 --device-memory 4900KiB \
        "${evaluated[@]}"
    for run in three shared few; do
        same cpu "$run"
    done
    for recipe in pairs_recipe image_recipe; do
        rm -rf ./*
        $recipe
        "$cpu" recipe.yaml --run cpu -q "${evaluated[@]:0:6}"
        SHIM_DEVICES=4 ranks 4 --run four --cut balanced "${evaluated[@]:0:6}"
        same cpu four
    done
}

@test "ranks of an MPI job without a wait are noticed; a rank without a GPU says so" {
    has_ranks || skip 'this build has no MPI, or there is no mpiexec'
    tiny_recipe
    export SHIM_DEVICES=2
    run timeout -s KILL 60 mpiexec -n 2 np-train recipe.yaml --backend mpi-cuda --devices 0,2 --run r
    [ "$status" -eq 2 ]
    [[ $output == *'np-train: error: rank 1: there is no CUDA device 2: 2 are here, '* ]]
    [ ! -e r ]
    unsanitized
    for wait in cudaStreamSynchronize cudaEventSynchronize; do
        SHIM_SKIP=$wait run ranks 2 --run skip
        [ "$status" -ne 0 ]
        [[ $output == *'shim: race: '*', in no order'* ]] || { echo "$wait: $output"; return 1; }
        rm -rf skip
    done
}

@test "NCCL without a wait is noticed; in a wrong order it ends" {
    unsanitized
    tiny_recipe
    export SHIM_DEVICES=2 SHIM_PEERS=0
    "$cpu" recipe.yaml --run cpu -q
    races cudaStreamWaitEvent --devices 0,1
    for group in 1 4 7; do
        rm -rf swapped
        SHIM_SWAP=$group run timeout -s KILL 30 np-train recipe.yaml --backend cuda --run swapped \
            -q --devices 0,1 --deadline 1
        [ "$status" -eq 2 ]
        [[ $output == *'NCCL: rank '*' sends '*' to rank '*': it is not done after 1 s' ]]
    done
}

@test "NCCL that fails or hangs ends the run with its cause, and nothing is lost" {
    tiny_recipe
    export SHIM_DEVICES=2 SHIM_PEERS=0
    "$cpu" recipe.yaml --run cpu -q
    on=(np-train recipe.yaml --backend cuda --run run -q --devices "0,1" --deadline 10)
    "${on[@]}" --stop-after 2 > /dev/null
    for call in ncclGetUniqueId:1 ncclCommInitRankConfig:2 ncclGroupEnd:1; do
        SHIM_FAIL=$call run "${on[@]}" --resume
        [ "$status" -eq 2 ]
        said 'np-train: error: NCCL cannot connect 2 CUDA devices: unhandled system error'
    done
    SHIM_HANG=ncclCommInitRankConfig:1 run "${on[@]}" --deadline 1 --resume
    [ "$status" -eq 2 ]
    said 'np-train: error: NCCL does not connect 2 CUDA devices in 1 s'
    for call in ncclSend:1 $(some "ncclSend:4 ncclRecv:3 ncclGroupEnd:3" "") ncclCommGetAsyncError:30; do
        SHIM_FAIL=$call run "${on[@]}" --resume
        [ "$status" -eq 2 ]
        [[ ${lines[0]} == 'np-train: error: NCCL: rank '*': '*error* ]] ||
            { echo "$call: $output"; return 1; }
    done
    for call in ncclSend:2 ncclRecv:5; do
        SHIM_HANG=$call run "${on[@]}" --deadline 1 --resume
        [ "$status" -eq 2 ]
        [[ ${lines[0]} == *'NCCL: rank '*': it is not done after 1 s' ]] ||
            { echo "$call: $output"; return 1; }
    done
    for call in ncclSend:1 $(some "ncclSend:2 ncclSend:4 ncclRecv:2" "") ncclRecv:6; do # of layers, of sums
        SHIM_HANG=$call run "${on[@]}" --deadline 1 --resume --replicas 2 -M 2
        [ "$status" -eq 2 ]
        [[ ${lines[0]} == *'NCCL: rank '*': it is not done after 1 s' ]] ||
            { echo "replicas, $call: $output"; return 1; }
    done
    for call in cudaEventRecord:3 cudaEventQuery:4 cudaStreamCreateWithFlags:2; do
        SHIM_FAIL=$call run "${on[@]}" --resume
        [ "$status" -eq 2 ]
    done
    SHIM_HANG=ncclCommFinalize:1 "${on[@]}" --deadline 3 --resume
    same cpu run
}

@test "layers come and go where there is no room for all" {
    unsanitized
    seq 1 2000 > corpus.txt
    sed -e 's/^train:/shared: {policy: delay, steps: 2}\n&/' \
        -e 's/^  train: .*/&\n  valid: {kind: bytes, files: [corpus.txt]}/' \
        "$NP_TREE/tests/recipes/text.yaml" > recipe.yaml
    evaluated=(--eval-every 5 --eval-subnets 2 --eval-batches 1)
    "$cpu" recipe.yaml --run cpu -q "${evaluated[@]}"
    for stages in 1 3; do
        gpu recipe.yaml --run "gpu$stages" --stop-after 7 "${evaluated[@]}" \
            -n "$stages" -M 1 --window 1 --device-memory 4900KiB
        gpu recipe.yaml --run "gpu$stages" --resume "${evaluated[@]}" \
            -n 2 --window 1 --device-memory 4400KiB --inject-delays "$stages"
        same cpu "gpu$stages"
        jq -s -e '[.[] | .stages // empty | .[].bytes_in] | add > 100000' "gpu$stages/metrics.jsonl"
    done
    SHIM_DEVICES=2 gpu recipe.yaml --run two --devices 1,0 -n 2 --window 1 --device-memory 4400KiB \
        --cut balanced "${evaluated[@]}"
    same cpu two
    races cudaStreamWaitEvent -n 1 -M 1 --window 1 --device-memory 4900KiB "${evaluated[@]}"
    races cudaStreamSynchronize -n 2 --window 1 --device-memory 4700KiB "${evaluated[@]}"
}

# The order of work changes from run to run, and when copies come.
@test "layers go to a file and come back: stopped, killed and resumed under other budgets" {
    seq 1 2000 > corpus.txt
    sed -e 's/^train:/&\n  checkpoint_every: 2/' \
        -e 's/^  train: .*/&\n  valid: {kind: bytes, files: [corpus.txt]}/' \
        "$NP_TREE/tests/recipes/text.yaml" > recipe.yaml
    evaluated=(--eval-every 5 --eval-subnets 2 --eval-batches 1)
    "$cpu" recipe.yaml --run cpu -q "${evaluated[@]}"
    gpu recipe.yaml --run gpu -n 2 --window 1 --device-memory 4500KiB --stash scratch \
        --inject-delays 3 --stop-after 7 "${evaluated[@]}"
    gpu recipe.yaml --run gpu --resume --device-memory 4700KiB -n 2 --window 1 "${evaluated[@]}"
    same cpu gpu
    SHIM_DEVICES=2 gpu recipe.yaml --run two --devices 1,0 -n 2 --window 1 --device-memory 4700KiB \
        --stash scratch --cut balanced "${evaluated[@]}"
    same cpu two
    jq -s -e '[.[] | .stages // empty | .[].bytes_in] | add > 100000' two/metrics.jsonl
    np-train recipe.yaml --run killed --backend cuda -q -n 2 --window 1 --device-memory 4700KiB \
        --stash scratch --losses losses "${evaluated[@]}" > out &
    pid=$!
    until [ -s losses ]; do
        kill -0 $pid
        sleep 0.05
    done
    kill -s KILL $pid
    wait $pid || true
    [ ! -e scratch ]
    gpu recipe.yaml --run killed --resume -n 1 --window 1 --device-memory 4900KiB --stash scratch \
        "${evaluated[@]}"
    np-verify cpu killed
    np-verify --fsck killed
    races cudaStreamSynchronize -n 2 --window 1 --device-memory 4700KiB --stash scratch \
        "${evaluated[@]}"
    : > taken
    refused "cannot create 'taken': File exists" np-train recipe.yaml --run r --backend cuda \
        --device-memory 5MiB --stash taken
}

@test "weights that are inherited are a processor's, resident and in the stash" {
    tiny_recipe
    "$cpu" recipe.yaml --run old -q
    "$cpu" recipe.yaml --run cpu --init old -s seed=9 --schedule sequential -q
    sed -i 's/^seed: .*/seed: 9/' recipe.yaml
    gpu recipe.yaml --run resident --init old -n 2
    same cpu resident
    gpu recipe.yaml --run stash --init old -n 2 -M 1 --window 1 --device-memory 4400KiB
    same cpu stash
    # they come out of the stash, and none is made from its address
    jq -s -e '[.[] | .stages // empty | .[]] | ([.[].bytes_in] | add > 10000) and
        ([.[].made] | add == 0)' stash/metrics.jsonl
    np-train recipe.yaml --run old-gpu --backend cuda -q --init old --stop-after 2
    "$cpu" recipe.yaml --run old-gpu --resume -q
    same cpu old-gpu
}

@test "a run goes on where another backend has left it" {
    unsanitized
    tiny_recipe
    sed -i 's/^train:/shared: {policy: delay, steps: 2}\n&/' recipe.yaml
    "$cpu" recipe.yaml --run cpu -q
    "$cpu" recipe.yaml --run run -q --stop-after 2
    gpu recipe.yaml --run run --resume --stop-after 4 -n 2
    "$cpu" recipe.yaml --run run -q --resume --stop-after 5 -n 3
    gpu recipe.yaml --run run --resume
    same cpu run
}

@test "a gradient that is not finite is the same news" {
    unsanitized
    tiny_recipe
    sed -i 's/^train:/&\n  optimizer: {kind: sgd, lr: 1.0e+18}/' recipe.yaml
    run "$cpu" recipe.yaml --run cpu -q
    [ "$status" -eq 1 ]
    news=$output
    for stages in 1 2; do
        run np-train recipe.yaml --backend cuda --run "gpu$stages" -q -n "$stages"
        [ "$status" -eq 1 ]
        [ "$output" = "$news" ]
    done
}

# Each has a race where one of the engine's waits is missing: of a flight that comes to a slot, for
# the crews of later stages and for the carriers of GPUs that read it; of a layer's next user, for
# its update; of replicas, for the update of a stem that they read.
@test "slots, layers and stems that others have just left" {
    unsanitized
    tiny_recipe
    sed -i 's/steps: 6/steps: 12/' recipe.yaml
    "$cpu" recipe.yaml --run cpu -q
    np-partition recipe.yaml -n 2 -M 1 --window 4 --profile-from model -q |
        sed -E -e 's/(first: stem, last: )[a-z0-9]+,( in_flight: [0-9]+,)?/\1stem, in_flight: 1,/' \
            -e 's/first: [a-z0-9]+(, last: head)/first: block00\1/' > stem.yaml
    gpu recipe.yaml --run stem --plan stem.yaml --inject-delays 1
    same cpu stem
    np-partition recipe.yaml -n 4 -M 2 --window 4 --profile-from model -q |
        sed -E 's/(last: (block..|head),)( in_flight: [0-9]+,)?/\1 in_flight: 1,/' > few.yaml
    SHIM_DEVICES=4 SHIM_PEERS=0 gpu recipe.yaml --run few --devices 0,1,2,3 --plan few.yaml
    same cpu few

    sed -e 's/^train:/shared: {policy: delay, steps: 2}\ntrain:/' -e 's/steps: 12/steps: 24/' \
        recipe.yaml > delay.yaml
    "$cpu" delay.yaml --run delay -q
    for replicas in 2 4; do
        gpu delay.yaml --run "replicas$replicas" -n 1 --replicas "$replicas"
        same delay "replicas$replicas"
    done

    sed -e '/conv1d/d' -e '/identity/d' -e 's/mha, heads: 2/identity/' -e 's/repeat: 4/repeat: 8/' \
        -e 's/ratio: 2, dropout: 0.1/ratio: 4/' -e 's/steps: 12/steps: 30/' recipe.yaml > move.yaml
    "$cpu" move.yaml --run move -q
    np-partition move.yaml -n 3 -M 1 --window 6 --cut balanced --profile-from model -q |
        sed 's/^unit: .*/unit: 1/' > balanced.yaml
    gpu move.yaml --run moves --plan balanced.yaml --inject-delays 3
    same move moves
}

@test "activations that are computed again, on one GPU and several" {
    unsanitized
    for recipe in tiny_recipe image_recipe pairs_recipe; do
        rm -rf ./*
        $recipe
        "$cpu" recipe.yaml --run cpu -q --schedule sequential
        gpu recipe.yaml --run few --recompute always -n 3 -W 4 --unit 2 --inject-delays 2
        SHIM_DEVICES=2 gpu recipe.yaml --run two --recompute always --devices 1,0 -n 4
        SHIM_DEVICES=4 SHIM_PEERS=0 gpu recipe.yaml --run nccl --recompute always \
            --devices 0,1,2,3 -n 4 --cut balanced
        for run in few two nccl; do
            same cpu "$run"
        done
    done
}

@test "the largest subnet, the smallest, and what they learn from the first" {
    unsanitized
    tiny_recipe
    sed -i 's/^train:/sampler: {kind: sandwich, members: 3}\n&\n  loss: {distill: 0.7}/' recipe.yaml
    equal
    gpu recipe.yaml --run replicas --replicas 2 -n 2
    SHIM_DEVICES=2 gpu recipe.yaml --run two --devices 1,0 -n 4 -M 2 -W 4 --inject-delays 2
    same cpu replicas
    same cpu two
}

# A stage that ends a flight begins the next one in its slot at once.
@test "a stage without weights: gradients go out of a slot before it is taken over" {
    unsanitized
    image_recipe
    { sed '/^  blocks:/,$d' recipe.yaml; cat << 'YAML'; } > pools.yaml
  stem: {op: patch, kernel: 1}
  blocks:
    - choices: [{op: conv2d, norm: none}, {op: identity}]
    - repeat: 2
      choices: [{op: avg_pool}, {op: max_pool}]
  head: {op: classifier, norm: none}
shared: {policy: frozen}
train:
  steps: 12
  batch: 4
  grain: 1
  optimizer: {kind: sgd, lr: 0.05}
YAML
    "$cpu" pools.yaml --run cpu -q
    np-partition pools.yaml -n 2 -M 2 --window 6 --profile-from model -q |
        sed -E -e 's/, in_flight: [0-9]+//' -e 's/stem, last: [a-z0-9]+/stem, last: block00/' \
            -e 's/first: [a-z0-9]+, last: head/first: block01, last: head, in_flight: 1/' \
            > plan.yaml
    SHIM_DEVICES=2 gpu pools.yaml --run pools --plan plan.yaml --devices 0,1
    same cpu pools
}

@test "random recipes by random plans on random GPUs" {
    unsanitized
    export NP_BIN FUZZ_DIR=$PWD FUZZ_CHECKS=gpus
    run "$NP_TREE/tests/fuzz/run" 1 15 18
    echo "$output"
    [ "$status" -eq 0 ]
    done='gpus 3, images 1, not finite 0, pairs 1, plans 6, recipe 3, runs [0-9]*, tokens 1'
    [[ ${lines[0]} =~ ^$done$ ]]
}

@test "a training without its waits is noticed" {
    unsanitized
    tiny_recipe
    "$cpu" recipe.yaml --run cpu -q
    races cudaEventSynchronize -n 2
}

@test "a call that fails ends the run with its cause" {
    tiny_recipe
    for call in cudaMallocAsync:1 cudaMallocAsync:9 cudaMallocHost:2 cudaMemcpyAsync:1 \
        cudaMemcpyAsync:30 cudaMemsetAsync:20 cudaStreamCreateWithFlags:2 cudaStreamSynchronize:1 \
        cudaEventCreateWithFlags:3 cudaEventRecord:1 cudaEventRecord:70 cudaEventSynchronize:1 \
        cudaEventSynchronize:25 cudaStreamWaitEvent:5 cudaSetDevice:1 cudaSetDevice:300 \
        cudaDeviceGetDefaultMemPool:1 cudaMemPoolSetAttribute:1 launch:1 launch:300 \
        cudaGraphLaunch:1 cudaGraphLaunch:9; do
        rm -rf gpu
        SHIM_FAIL=$call run np-train recipe.yaml --backend cuda --run gpu -q -n 2
        [ "$status" -eq 2 ]
        [[ $output == 'np-train: error: '*'CUDA device 0'* || $output == *'cannot allocate'* ]] ||
            { echo "$call: $output"; return 1; }
    done
}

@test "without room for more graphs the bits are the same" {
    tiny_recipe
    "$cpu" recipe.yaml --run cpu -q
    for call in cudaGraphInstantiate:1 cudaGraphAddKernelNode:20; do
        SHIM_FAIL=$call gpu recipe.yaml --run "${call%:*}" -n 2
        same cpu "${call%:*}"
    done
}

@test "np-partition measures GPUs, and knows their memory" {
    unsanitized
    tiny_recipe
    export XDG_CACHE_HOME=$PWD
    "$cpu" recipe.yaml --run cpu -q
    SHIM_DEVICES=2 np-partition recipe.yaml --backend cuda --devices 0,1 -n 2 -M 2 -q -o plan.yaml
    [ "$(cut -d'|' -f2,3 naspipe/profile.tsv | sort -u)" = 'shim, driver for 12.0|cuda' ]
    SHIM_DEVICES=2 gpu recipe.yaml --run two --plan plan.yaml --devices 0,1
    same cpu two
    taken=$(($(grep -o 'memory_bytes: [0-9]*' plan.yaml | cut -d' ' -f2 | paste -sd+)))
    graphs=$((2 * 1024 * 12 * 1024)) # of 1024 launches in each of two stages
    SHIM_MEMORY=$((taken + graphs)) np-partition recipe.yaml --backend cuda -n 2 -M 2 \
        -o small.yaml 2> said
    grep 'the GPUs have no room for all layers: --device-memory' said
    grep 'device_memory: ' small.yaml
    gpu recipe.yaml --run small --plan small.yaml
    same cpu small
    SHIM_DEVICES=0 refused 'there is no CUDA device here: no CUDA-capable device is detected' \
        np-partition recipe.yaml --backend cuda
    SHIM_DEVICES=0 np-partition recipe.yaml --backend auto --profile-from model -q > auto.yaml
    np-partition recipe.yaml --backend cuda -n 2 -M 2 --device-memory 4500KiB --stash scratch -q \
        > filed.yaml
    grep 'stash: {read: [1-9][0-9]*, write: [1-9]' filed.yaml
    gpu recipe.yaml --run filed --plan filed.yaml --stash scratch
    same cpu filed
    [ ! -e scratch ]
    for wrong in '--threads 2' '--isa scalar' '--devices 2x'; do
        run np-partition recipe.yaml --backend cuda $wrong
        [ "$status" -eq 2 ]
    done
}

@test "GPUs that cannot be used are refused" {
    tiny_recipe
    train='np-train recipe.yaml --run r --backend cuda'
    SHIM_DEVICES=driver refused 'there is no CUDA device here: CUDA driver version is insufficient' \
        $train
    SHIM_DEVICES=0 refused 'there is no CUDA device here: no CUDA-capable device is detected' \
        $train
    SHIM_ARCH=75 refused 'CUDA device 0 has compute capability 7.5: 8.0 is the least' $train
    SHIM_DEVICES=2 refused 'there is no CUDA device 2: 2 are here, counted from 0' \
        $train --devices 0,2
    SHIM_MEMORY=4096 refused \
        'CUDA device 0 has no room for 132 KiB: 4 KiB of its 4 KiB are free' $train
    for wrong in '--devices 0,0' '--devices 0,' '--devices x' '--threads 2' '--isa scalar' \
        '--transport x' '--deadline 0'; do
        run $train $wrong
        [ "$status" -eq 2 ]
        [ ! -e r ]
    done
    SHIM_DEVICES=driver np-train recipe.yaml --run auto -q --backend auto
    [ "$(jq -r .backend auto/run.json)" = cpu ]
    np-train recipe.yaml --run found -q --backend auto
    [ "$(jq -r .backend found/run.json)" = cuda ]
}

@test "np-evaluate: scores of GPUs, one subnet at a time and several" {
    for recipe in $(some "tiny_recipe image_recipe pairs_recipe" image_recipe); do
        rm -rf ./*
        $recipe
        "$cpu" recipe.yaml --run a -q > /dev/null
        "$NP_BIN/np-evaluate" recipe.yaml --run a -q --random 8 --batches 2 > expected
        for jobs in $(some "1 3" 3); do
            SHIM_SEED=$jobs np-evaluate recipe.yaml --run a -q --random 8 --batches 2 \
                --backend cuda -j $jobs | cmp - expected
        done
        for more in '' $(some "-j1 -j5" ""); do # GPUs that cannot use each other's memory
            SHIM_DEVICES=3 SHIM_PEERS=0 np-evaluate recipe.yaml --run a -q --random 8 --batches 2 \
                --backend cuda --devices 2,0 $more | cmp - expected
        done
        np-evaluate recipe.yaml --run a -q --random 8 --batches 2 --backend cuda -j 2 \
            --weight-memory 1 | cmp - expected
    done
    for wrong in '--devices 0' '--backend auto --devices 0' '--backend cuda --devices 0,0' \
        '--backend cuda --devices 0,1'; do
        run np-evaluate recipe.yaml --run a -q $wrong
        [ "$status" -eq 2 ]
    done
}

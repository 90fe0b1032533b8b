#!/usr/bin/env bats
# Whole trainings by the processes of an MPI job: the digests, ledgers and scores of one process.

load common

setup() {
    has_ranks || skip 'this build has no MPI, or there is no mpiexec'
    fresh_directory
}

teardown() {
    [ -z "${NP_HOSTS:-}" ] || remove_hosts
}

# ranks N RECIPE OPTION...: trains on so many ranks.
ranks() {
    timeout -s KILL 120 mpiexec -n "$1" np-train "$2" --backend mpi -q "${@:3}" > /dev/null
}

# hosts A:N,B:M RECIPE OPTION...: trains on so many ranks of those hosts. They share files.
hosts() {
    local address=${1%%:*} recipe=$2
    timeout -s KILL 120 "$OMPI_MCA_plm_rsh_agent" "$address" mpiexec --host "$1" \
        "$NP_BIN/np-train" "$PWD/$recipe" --backend mpi -q "${@:3}" > /dev/null
}

# goes_on RUN: 20 steps more, in one process, give the bits of a run of its own.
goes_on() {
    local next
    next=$(($(tail -n 1 "$1/ledger.tsv" | cut -f 1) + 20))
    rm -rf whole
    np-train recipe.yaml --run "$1" -q --resume --stop-after "$next" > /dev/null
    np-train recipe.yaml --run whole -q --stop-after "$next" > /dev/null
    np-verify "$1" whole
}

evaluated=(--eval-every 3 --eval-subnets 3 --eval-batches 2)

# ranks_of RUN: "RANK PID" of each process of the job that trains it here.
ranks_of() {
    for pid in $(pgrep -f "np-train recipe.yaml --backend mpi -q --run $1"); do
        [ "/proc/$pid/cwd" -ef . ] || continue
        tr '\0' '\n' < "/proc/$pid/environ" | sed -n "s/^\(OMPI_COMM_WORLD_RANK\|PMI_RANK\)=/$pid /p"
    done 2> /dev/null | awk '{ print $2, $1 }' | sort
}

@test "text: any number of ranks gives the bits of one process" {
    tiny_recipe
    np-train recipe.yaml --run one -q --schedule sequential "${evaluated[@]}" > /dev/null
    for count in $(some "1 2 3 4" 2); do
        ranks "$count" recipe.yaml --run "ranks$count" "${evaluated[@]}"
        same one "ranks$count"
        [ "$(jq -r .backend "ranks$count/run.json")" = mpi ]
    done
}

@test "text: every kind of layer, stages that share a rank, threads, and what comes late" {
    seq 1 2000 > corpus.txt
    sed 's/^train:/&\n  clip: {kind: layer, limit: 0.05}/' "$NP_TREE/tests/recipes/text.yaml" \
        > recipe.yaml
    np-train recipe.yaml --run one -q > /dev/null
    ranks 2 recipe.yaml --run four -n 4 -M 2 -W 4 --threads 2 --inject-delays 3
    ranks 2 recipe.yaml --run again -n 3 -M 2 -W 3 --recompute always
    taught=(--set 'sampler={kind: sandwich}' --set 'train.loss={distill: 0.5}')
    np-train recipe.yaml --run taught -q --schedule sequential "${taught[@]}" > /dev/null
    ranks 2 recipe.yaml --run taught2 -n 3 -M 2 -W 3 "${taught[@]}"
    same taught taught2
    same one four
    same one again
}

@test "images and pairs: batch norm, cells, an encoder that all stages read, layers that move" {
    unsanitized
    for recipe in image_recipe pairs_recipe; do
        rm -rf ./*
        $recipe
        np-train recipe.yaml --run one -q "${evaluated[@]:0:6}" > /dev/null
        ranks 2 recipe.yaml --run two -n 4 --cut balanced "${evaluated[@]:0:6}"
        ranks 4 recipe.yaml --run four -n 4 --cut balanced --inject-delays 5 "${evaluated[@]:0:6}"
        same one two
        same one four
    done
}

@test "a rank has the processors of its host that are its own, and costs are measured on these" {
    unsanitized
    [ "$(nproc)" -ge 2 ] || skip 'two ranks have no processors of their own'
    tiny_recipe
    for binding in core none; do
        OMPI_MCA_hwloc_base_binding_policy=$binding mpiexec -n 2 np-partition recipe.yaml \
            --backend mpi -M 2 -o "$binding.yaml"
        mv "$XDG_CACHE_HOME/naspipe/profile.tsv" "$binding"
    done
    grep -q 'threads=1|teams=1\s' core
    [ "$(grep -c 'teams=2' core)" -eq 0 ]
    # unbound, both ranks see all of the host's processors
    if [ "$(nproc)" -le 3 ]; then grep -q 'threads=1|teams=2\s' none; else [ -s none ]; fi
    OMPI_MCA_hwloc_base_binding_policy=core mpiexec -n 2 np-train recipe.yaml --backend mpi \
        --run run > /dev/null 2> said
    [ ! -s said ]
    [ "$(jq .plan.threads run/run.json)" = 1 ]
}

@test "replicas on ranks of their own hand layers and gradient sums on" {
    tiny_recipe
    sed -i 's/^train:/sampler: {members: 2}\nshared: {steps: 2}\n&/' recipe.yaml
    np-train recipe.yaml --run one -q --schedule sequential "${evaluated[@]}" > /dev/null
    ranks 2 recipe.yaml --run two --replicas 2 "${evaluated[@]}"
    same one two
    unsanitized
    ranks 4 recipe.yaml --run four --replicas 2 -M 4 -W 4 --device-memory 64MiB --inject-delays 4
    ranks 4 recipe.yaml --run most --replicas 4 -M 4 -n 2 --recompute always
    ranks 2 recipe.yaml --run stopped --replicas 2 -M 2 --stop-after 3
    np-train recipe.yaml --run stopped --resume -q > /dev/null
    for run in four most stopped; do
        same one "$run"
    done
}

@test "replicas on ranks of their own share the subnets of a step, and update layers in turn" {
    unsanitized
    image_recipe
    sed -i 's/^train:/sampler: {members: 4}\n&/' recipe.yaml
    np-train recipe.yaml --run one -q "${evaluated[@]}" > /dev/null
    ranks 2 recipe.yaml --run two --replicas 2 -n 2 "${evaluated[@]}"
    ranks 4 recipe.yaml --run four --replicas 2 --device-memory 64MiB --inject-delays 6 \
        "${evaluated[@]}"
    ranks 4 recipe.yaml --run stopped --replicas 4 --stop-after 3
    np-train recipe.yaml --run stopped --resume -q "${evaluated[@]}" > /dev/null
    for run in two four stopped; do
        same one "$run"
    done
}

@test "more ranks than there are positions" {
    unsanitized
    tiny_recipe
    np-train recipe.yaml --run one -q > /dev/null
    ranks 7 recipe.yaml --run seven
    same one seven
}

@test "the sequential reference, subnets and losses through pipes" {
    unsanitized
    tiny_recipe
    np-train recipe.yaml --run one -q > /dev/null
    ranks 2 recipe.yaml --run two --schedule sequential
    same one two
    printf '%s\n' '0 1 2 3' '3 2 1 0' > subnets
    np-train recipe.yaml --run fed -q --subnets subnets --losses losses > /dev/null
    timeout -s KILL 120 mpiexec -n 2 np-train recipe.yaml --backend mpi --run piped -q --subnets - \
        --losses two-losses < subnets
    np-verify fed piped
    cmp losses two-losses
}

@test "little memory: layers go to the stash of the first rank and come back" {
    unsanitized
    tiny_recipe
    np-train recipe.yaml --run one -q > /dev/null
    ranks 2 recipe.yaml --run few -n 2 --window 1 --device-memory 3500KiB
    ranks 2 recipe.yaml --run filed -n 2 --window 1 --device-memory 3500KiB --stash scratch
    same one few
    same one filed
}

@test "a run goes on with other ranks, also after a kill" {
    tiny_recipe
    np-train recipe.yaml --run one -q > /dev/null
    ranks 2 recipe.yaml --run two --stop-after 2
    ranks 3 recipe.yaml --run two --resume --stop-after 4
    np-train recipe.yaml --run two --resume -q > /dev/null
    np-verify one two
    sed -i 's/steps: 6/steps: 100000\n  checkpoint_every: 5/' recipe.yaml
    ranks 2 recipe.yaml --run killed &
    job=$!
    until grep -qs '^20' killed/ledger.tsv; do
        kill -0 "$job"
        sleep 0.05
    done
    ranks_of killed | cut -d ' ' -f 2 | xargs kill -KILL
    wait "$job" || true
    np-verify --fsck killed
    next=$(($(tail -n 1 killed/ledger.tsv | cut -f 1) + 20))
    ranks 2 recipe.yaml --run killed --resume --stop-after "$next"
    np-train recipe.yaml --run whole -q --stop-after "$next" > /dev/null
    np-verify killed whole
}

@test "replicas: a rank that dies ends the job, and the run goes on without it" {
    unsanitized
    tiny_recipe
    sed -i 's/steps: 6/steps: 100000\n  checkpoint_every: 5/
        s/^train:/sampler: {members: 2}\n&/' recipe.yaml
    for rank in 1 0; do
        rm -rf killed
        ranks 2 recipe.yaml --run killed --replicas 2 2> /dev/null &
        job=$!
        until grep -qs '^20' killed/ledger.tsv; do
            kill -0 "$job"
            sleep 0.05
        done
        kill -KILL "$(ranks_of killed | sed -n "s/^$rank //p")"
        if wait "$job"; then return 1; fi
        np-verify --fsck killed
        goes_on killed
    done
}

@test "a rank that is stopped ends the job after the deadline, and the run goes on" {
    unsanitized
    tiny_recipe
    sed -i 's/steps: 6/steps: 100000\n  checkpoint_every: 5/' recipe.yaml
    for rank in 1 0; do
        rm -rf silent
        ranks 2 recipe.yaml --run silent --deadline 2 2> said &
        job=$!
        until grep -qs '^20' silent/ledger.tsv && [ "$(ps -o etimes= $job)" -gt 5 ]; do
            kill -0 "$job" # longer than the deadline: they answer each other
            sleep 0.05
        done
        kill -STOP "$(ranks_of silent | sed -n "s/^$rank //p")"
        if wait "$job"; then return 1; fi
        grep "np-train: error: rank $((1 - rank)) has heard nothing of rank $rank for 2 s: " said
        np-verify --fsck silent
    done
    goes_on silent
}

@test "a launcher that is asked for a clean end passes it on" {
    unsanitized
    tiny_recipe
    sed -i 's/steps: 6/steps: 100000/' recipe.yaml
    # MPICH's dies of the other one, and forgets the ranks' exit status
    passed='USR1 USR2'
    np-train --version | grep -q 'MPI: Open MPI' || passed=USR1
    for signal in $passed; do
        rm -rf asked
        mpiexec -n 2 np-train recipe.yaml --backend mpi -q --run asked > out 2> said &
        job=$!
        until grep -qs '^20' asked/ledger.tsv; do
            kill -0 $job
            sleep 0.05
        done
        kill -s $signal $job
        code=0
        wait $job || code=$?
        [ $code -eq 75 ] || { [ "$passed" = USR1 ] && [ $code -eq 0 ]; }
        grep -q 'np-train: stopped on request after step .*; continue with --resume' said
        np-verify --fsck asked
        np-train recipe.yaml --run whole -q --stop-after "$(wc -l < asked/ledger.tsv)" > /dev/null
        np-verify asked whole
        rm -rf whole
    done
}

@test "what is not finite stops ranks and one process alike" {
    unsanitized
    image_recipe
    # A variance that overflows makes a norm of what is finite again.
    sed -i 's/  width: 8/&\n  stem: {op: conv2d, norm: group}/; s/crop: 1/std: [1.0e-20], &/' recipe.yaml
    for run in '--schedule sequential' '-n 2 --isa scalar'; do
        # shellcheck disable=SC2086 # several words
        run np-train recipe.yaml --run "r$((++n))" -q $run
        [ "$status" -eq 1 ]
        [[ "${lines[0]}" == "np-train: error: step 0, member 0, "*"the output of layer 'stem' is not finite" ]]
        said=${lines[0]}
    done
    run timeout -s KILL 60 mpiexec -n 2 np-train recipe.yaml --backend mpi -n 2 --run r
    [ "$status" -eq 1 ]
    [[ "$output" == *"$said"* ]]
}

@test "where several values cross from memory to memory, a plan fits in what it is made for" {
    unsanitized
    "$NP_TREE/tests/write-inputs" 9 6 5
    cp "$NP_TREE/tests/recipes/graph.yaml" recipe.yaml
    np-train recipe.yaml --run one -q --stop-after 2 > /dev/null
    planned=(-n 3 -M 1 -W 4 --profile-from model)
    run timeout -s KILL 60 mpiexec -n 3 np-partition recipe.yaml --backend mpi "${planned[@]}" \
        --device-memory 1KiB
    least=$(sed -n 's/.*needs at least \([0-9]*\) bytes.*/\1/p' <<< "$output")
    for more in 0 65536; do
        ranks 3 recipe.yaml --run "plus$more" "${planned[@]}" --device-memory $((least + more)) \
            --stop-after 2
        np-verify one "plus$more"
    done
}

@test "np-partition plans for ranks: a stage each, and what is between them" {
    unsanitized
    tiny_recipe
    np-train recipe.yaml --run one -q > /dev/null
    timeout -s KILL 60 mpiexec -n 3 np-partition recipe.yaml --backend mpi -q -o plan.yaml
    [ "$(grep -c 'first:' plan.yaml)" -eq 3 ]
    grep -Eq '^link: \{task_ns: [1-9][0-9]*, latency_ns: [1-9][0-9]*, bandwidth: [1-9]' plan.yaml
    np-predict-trace recipe.yaml --plan plan.yaml --steps 9 > with
    grep -v '^link:' plan.yaml > near.yaml
    np-predict-trace recipe.yaml --plan near.yaml --steps 9 > without
    if cmp -s with without; then return 1; fi
    ranks 3 recipe.yaml --run three --plan plan.yaml
    np-verify one three
    timeout -s KILL 60 mpiexec -n 3 np-partition recipe.yaml --backend mpi -q -o plan.yaml \
        --profile-from model
    if grep '^link:' plan.yaml; then return 1; fi
}

@test "np-partition plans replicas on ranks: what they fetch, and what their copies take" {
    unsanitized
    tiny_recipe
    sed -i 's/^train:/sampler: {members: 4}\n&/' recipe.yaml
    plan() { timeout -s KILL 60 mpiexec -n 2 np-partition recipe.yaml --backend mpi --replicas 2 "$@"; }
    plan -n 1 -M 2 -q -o plan.yaml
    said=$(sed -n 's/^predicted: {step_ms: \([0-9.]*\),.*/\1/p' plan.yaml)
    np-predict-trace recipe.yaml --plan plan.yaml --steps 48 > predicted
    awk -v said="$said" '$1 == "step_ms" { d = $2 / said - 1; exit !(d < 0.01 && d > -0.01) }' \
        predicted
    model=(-M 1 --threads 1 --profile-from model -q --device-memory 4200KiB)
    batch=$(plan "${model[@]}" --max-batch | sed -n 's/.*train.batch=\([0-9]*\) .*/\1/p')
    plan "${model[@]}" --set "train.batch=$batch" --set train.grain=1 > /dev/null
    run plan "${model[@]}" --set "train.batch=$((batch + 1))" --set train.grain=1
    [ "$status" -eq 1 ]
    [[ $output == *'nothing fits'* ]]
}

@test "random recipes by ranks, in little memory too" {
    unsanitized
    FUZZ_DIR=$PWD FUZZ_CHECKS=ranks NP_BIN=$NP_BIN run "$NP_TREE/tests/fuzz/run" 3 11 13 15
    echo "$output"
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == *'ranks 4, '* ]]
}

@test "hosts: two of them, also with several ranks each" {
    make_hosts || skip 'no two hosts: they need root, ip netns and Open MPI'
    tiny_recipe
    np-train recipe.yaml --run one -q "${evaluated[@]}" > /dev/null
    hosts 10.77.0.1:1,10.77.0.2:1 recipe.yaml --run "$PWD/two" "${evaluated[@]}"
    hosts 10.77.0.1:2,10.77.0.2:2 recipe.yaml --run "$PWD/four" -n 4 --cut balanced
    same one two
    np-verify one four
}

@test "hosts: one that dies ends the job, and the run goes on elsewhere" {
    make_hosts || skip 'no two hosts: they need root, ip netns and Open MPI'
    tiny_recipe
    sed -i 's/steps: 6/steps: 100000\n  checkpoint_every: 5/' recipe.yaml
    hosts 10.77.0.1:1,10.77.0.2:1 recipe.yaml --run "$PWD/died" &
    job=$!
    until grep -qs '^20' died/ledger.tsv; do
        kill -0 "$job"
        sleep 0.05
    done
    end_host 10.77.0.2
    if wait "$job"; then return 1; fi
    np-verify --fsck died
    goes_on died
}

@test "what ranks cannot do is refused, and all of them end" {
    tiny_recipe
    run timeout -s KILL 60 mpiexec -n 2 np-train nothing.yaml --backend mpi --run r
    [ "$status" -eq 2 ]
    [[ $output == *"np-train: error: cannot open 'nothing.yaml': No such file or directory"* ]]
    np-partition recipe.yaml --replicas 2 -n 1 --profile-from model -q > plan.yaml
    run timeout -s KILL 60 mpiexec -n 3 np-train recipe.yaml --backend mpi --plan plan.yaml --run r
    [ "$status" -eq 2 ]
    [[ $output == *'np-train: error: 3 ranks or GPUs cannot be dealt evenly to 2 replicas'* ]]
    run timeout -s KILL 60 mpiexec -n 4 np-train recipe.yaml --backend mpi --replicas 2 \
        --cut balanced --run r
    [ "$status" -eq 2 ]
    [[ $output == *'balanced cuts hand layers over: between ranks, '*' is for one replica, not 2'* ]]
    [ ! -e r ]
}

@test "tasks of a Slurm step that do not find each other, or were not told to" {
    tiny_recipe
    run env SLURM_STEP_NUM_TASKS=3 np-train recipe.yaml --backend mpi --run r
    [ "$status" -eq 2 ]
    [[ $output == *"MPI: this process is alone, but the Slurm step has 3 tasks: "*"'srun --mpi=pmi"* ]]
    [ ! -e r ]
    SLURM_STEP_NUM_TASKS=2 mpiexec -n 1 np-train recipe.yaml --backend mpi -q --run r > /dev/null
    run env SLURM_STEP_NUM_TASKS=3 np-train recipe.yaml --run r
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == *"'r' exists; --resume continues a run" ]]
    [[ ${lines[1]} == *"one of 3 processes that were launched together"*"--backend mpi"* ]]
    run np-train recipe.yaml --run r
    [ "${#lines[@]}" -eq 1 ]
}

#!/usr/bin/env bats
# What random recipes, plans and damage come to (tests/fuzz/run), with seeds that are quick and have
# replicas, kills, a stash, evaluations, cells, batch norm, memories and fair samplers.

load common

@test "random recipes by random plans, interrupted, in little memory, from streams, damaged" {
    fresh_directory
    export NP_BIN FUZZ_DIR=$PWD FUZZ_CHECKS=pipelines,interruptions,heirs,memory,plan_files,streams,damage
    run "$NP_TREE/tests/fuzz/run" 1 9 15 18 30 34
    echo "$output"
    [ "$status" -eq 0 ]
    done='damage 6, heirs 6, images 3, interruptions 6, memory 6, not finite 0, pairs 1, pipelines 6, '
    done+='plan_files 6, plans 66, recipe 6, runs [0-9]*, streams 6, tokens 2'
    [[ ${lines[0]} =~ ^$done$ ]]
}

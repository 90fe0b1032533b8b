#!/usr/bin/env bats
# --device-memory, --stash: supernets larger than the device, with the same bits.

load common

setup() {
    fresh_directory
    small_recipe
}

@test "every budget down to the least gives the same bits, in memory and in a file" {
    np-train r.yaml --run all
    for stages in 1 3; do
        least=$(least_of -n $stages)
        for more in $(some '0 20000 100000 1000000' '0 100000'); do
            np-train r.yaml --run "m$stages.$more" -n $stages --device-memory $((least + more))
            same all "m$stages.$more"
            np-train r.yaml --run "f$stages.$more" -n $stages --device-memory $((least + more)) \
                --stash scratch
            same all "f$stages.$more"
            [ ! -e scratch ]
        done
    done
}

@test "what np-partition calls sufficient is, and one byte less is refused" {
    least=$(least_of -n 2)
    np-partition r.yaml -n 2 --profile-from model --device-memory "$least" -o plan.yaml
    grep -qx "device_memory: $least" plan.yaml
    np-train r.yaml --plan plan.yaml --run a
    run np-partition r.yaml -n 2 --profile-from model --device-memory $((least - 1))
    [ "$status" -eq 1 ]
    run np-train r.yaml --run b -n 2 --device-memory $((least - 1))
    [ "$status" -eq 1 ]
    run np-train r.yaml --run b -q --plan plan.yaml --device-memory $((least - 1))
    [ "$status" -eq 2 ]
    [[ "${lines[0]}" == "np-train: error: a device memory of $((least - 1)) bytes is too little for"* ]]
    [[ "${lines[0]}" == *"it needs $least ("* ]]
    [ ! -e b ]
}

@test "stopped and resumed under other budgets" {
    np-train r.yaml --run a
    least=$(least_of -n 2)
    np-train r.yaml --run b -n 2 --device-memory "$least" --stop-after 7
    np-train r.yaml --run b --resume --stop-after 12
    np-train r.yaml --run b --resume -n 1 --device-memory 10MiB --stash scratch
    same a b
}

@test "policies and late copies change time only" {
    np-train r.yaml --run a
    least=$(least_of -n 2)
    for how in $(some 'ahead next demand lru' 'ahead lru'); do
        np-train r.yaml --run $how -n 2 --device-memory $((least + 50000)) --prefetch $how \
            --inject-delays 3
        same a $how
    done
    np-train r.yaml --run near -n 2 --device-memory $((least + 50000)) --lookahead 3
    same a near
}

@test "subnets from a program that waits for each loss" {
    yes '0 1 2 0 1 2' | head -4 > list
    np-train r.yaml --run a --subnets list
    coproc trainer { np-train r.yaml --run b --subnets - --losses - --device-memory 10MiB; }
    pid=$trainer_PID
    exec 7<&"${trainer[0]}" 8>&"${trainer[1]}"
    eval "exec ${trainer[1]}>&-"
    while read -r line; do
        echo "$line" >&8
        read -r -t 20 _ _ <&7
    done < list
    exec 8>&-
    read -r -t 20 _ _ <&7
    wait "$pid"
    same a b
}

@test "counters in metrics.jsonl and with --verbose" {
    least=$(least_of -n 2)
    run np-train r.yaml --run a -n 2 --device-memory $((least + 20000)) -v
    [ "$status" -eq 0 ]
    [[ "$output" == *"layers: "*" visits, "*" % hits, "*" late, "*" misses; "*" in, "*" out, "* ]]
    [[ "$output" == *" in the stash (memory)"* ]]
    jq -e -s 'map(select(.stages))[-1] | .step == 20 and (.stages | length) == 2 and
        (.stages | all(.hits + .late + .misses > 0 and .made > 0 and .bytes_out > 0))' a/metrics.jsonl
}

# in_budget TRACE BYTES: its counters never exceed the memory.
in_budget() {
    jq -e --argjson most "$2" '
        ([.traceEvents[] | select(.ph == "C") | .args.bytes] | length > 10 and max <= $most) and
        ([.traceEvents[] | select(.cat == "copy" and .ph == "X")] |
            length > 10 and all(.dur >= 0 and .args.bytes > 0)) and
        (.otherData.stages | length == 2 and
            all(.device_bytes == $most and .fixed_bytes + .peak_bytes <= $most and .hits > 0))' "$1"
}

@test "copies, stalls and memory in a trace, measured and predicted" {
    least=$(least_of -n 2)
    memory=$((least + 20000))
    np-partition r.yaml -n 2 --profile-from model --device-memory $memory -o plan.yaml
    np-train r.yaml --run a --plan plan.yaml --trace measured.json --inject-delays 5
    np-predict-trace r.yaml --plan plan.yaml --stash-bandwidth 1MiB --format chrome \
        -o predicted.json
    for trace in measured predicted; do
        in_budget $trace.json $memory
        jq -e '[.traceEvents[] | select(.ph == "X" and .cat != "copy") | .args.stall] |
            all(. >= 0) and max > 0' $trace.json
    done
    np-train r.yaml --run b --plan plan.yaml --trace measured.svg
    np-predict-trace r.yaml --plan plan.yaml --stash-bandwidth 1MiB --format svg -o predicted.svg
    for trace in measured predicted; do
        [ "$(grep -c '>copies</text>' $trace.svg)" -eq 2 ]
        grep -q '>fetch</text>' $trace.svg
        grep -q 'fill="url(#stall)"' $trace.svg
        if command -v xmllint > /dev/null; then xmllint --noout $trace.svg; fi
    done
    np-predict-trace r.yaml -n 2 --format svg -o plain.svg
    lacks '>copies</text>' plain.svg
}

@test "a prediction of hits, stalls and memory agrees with itself, and with a run" {
    least=$(least_of -n 2)
    memory=$((least + 20000))
    np-partition r.yaml -n 2 --profile-from model --device-memory $memory -o plan.yaml
    mkdir self
    np-predict-trace r.yaml --plan plan.yaml --stash-bandwidth 100MiB --steps 40 --format chrome \
        -o self/trace.json
    run np-predict-trace r.yaml --plan plan.yaml --against self
    [ "$status" -eq 0 ]
    between -0.01 "$(value error_percent)" 0.01
    [ "$(value matched_tasks) $(value order_agreement)" = '1.0000 1.0000' ]
    [ "$(value hit_rate_error_points)" = 0.00 ]
    [ "$(value measured_stall)" = "$(value predicted_stall)" ]
    [ "$(value measured_peak_memory)" = "$memory" ] || [ "$(value measured_peak_memory)" -lt "$memory" ]
    [ "$(value measured_peak_memory)" = "$(value predicted_peak_memory)" ]
    [ "$(value read_bandwidth) $(value both_bandwidth)" = "104857600 104857600" ]
    run np-predict-trace r.yaml --plan plan.yaml --against self --stash-bandwidth 1MiB
    [ "$(value read_bandwidth) $(value write_bandwidth)" = "1048576 1048576" ]
    [ "$(value predicted_stall)" != "$(value measured_stall)" ]

    np-partition r.yaml -n 1 -W 1 --replicas 1 --profile-from model \
        --device-memory $((2 * memory)) -o plan.yaml
    np-train r.yaml --run a --plan plan.yaml --prefetch lru --trace a.json
    run np-predict-trace r.yaml --plan plan.yaml --against a.json
    [ "$status" -eq 0 ]
    [ "$(value hit_rate_error_points)" = 0.00 ]
    [ "$(value measured_peak_memory)" = "$(value predicted_peak_memory)" ]
    run np-predict-trace r.yaml --plan plan.yaml --prefetch ahead --against a.json
    [ "$status" -eq 0 ]
    [ "$(value hit_rate_error_points)" != 0.00 ]
}

@test "a trace says what decided its copies" {
    least=$(least_of -n 1)
    memory=$((least + 20000))
    np-partition r.yaml -n 1 -W 1 --profile-from model --device-memory $memory \
        --stash-bandwidth 100MiB -o plan.yaml
    grep -qx 'stash: {read: 104857600, write: 104857600, both: 104857600, processor: 0}' plan.yaml
    np-train r.yaml --run a --plan plan.yaml --trace a.json --prefetch next --stash scratch \
        --inject-delays 3
    jq -e '[.traceEvents[].args.copier? // empty] | unique == [0, 1]' a.json
    jq -e '.otherData | .prefetch == "ahead" and .lookahead == 1 and .stash == "file" and
        .disk_read == 104857600' a.json
    jq -e 'def moved($kind): [.traceEvents[] | select(.name | startswith($kind)) | .args.bytes];
        def all(f): .otherData.stages | map(f) | add;
        all(.bytes_in) == (moved("fetch") | add) and all(.bytes_out) == (moved("write") | add) and
        all(.made) == (moved("make") | length) and all(.bytes_in) != all(.bytes_out)' a.json
    jq -e --argjson memory $memory '.copies == {device_memory: $memory, prefetch: "ahead",
        lookahead: 1, stash: "file"}' a/run.json
    run np-predict-trace r.yaml --plan plan.yaml --against a.json
    [ "$(value write_bandwidth)" = 104857600 ]
    jq '.otherData.disk_read = 0' a.json > b.json
    grep -v '^stash:' plan.yaml > q.yaml
    run np-predict-trace r.yaml --plan q.yaml --against b.json
    [ "$status" -eq 0 ]
    [ "$(value read_bandwidth)" -gt 0 ]
    [ "$(value read_bandwidth)" = "$(value both_bandwidth)" ]
    np-train r.yaml --run c --plan plan.yaml --trace c.json
    jq -e '.otherData.stash == "memory"' c.json
    run np-predict-trace r.yaml --plan plan.yaml --against c.json
    [ "$status" -eq 0 ]
    [[ "$output" != *bandwidth* ]]
}

@test "a prediction is compared with a run of the same stages and memory" {
    least=$(least_of -n 2)
    np-partition r.yaml --replicas 1 -n 2 --threads 1 --profile-from model -o plan.yaml
    np-train r.yaml --run a --plan plan.yaml --device-memory 16777216 --trace a.json
    run np-predict-trace r.yaml --plan plan.yaml --against a.json
    [ "$status" -eq 0 ]
    run np-predict-trace r.yaml --plan plan.yaml --device-memory 8MiB --against a.json
    [ "$status" -eq 2 ]
    said "np-predict-trace: error: 'a.json' ran with 16777216 bytes of device memory, not 8388608"
    run np-predict-trace r.yaml -n 3 --device-memory 16777216 --against a.json
    [ "$status" -eq 2 ]
    said "np-predict-trace: error: 'a.json' ran on 2 stages, the plan has 3"
    np-train r.yaml --run b --plan plan.yaml --trace b.json
    run np-predict-trace r.yaml --plan plan.yaml --device-memory 1GiB --against b.json
    [ "$status" -eq 2 ]
    said "np-predict-trace: error: 'b.json' ran without --device-memory"
}

# What the kernel does for io_uring it may want a thread for, which counts among the user's.
@test "a stash of a user who may start no more threads" {
    other_user np-train --version > /dev/null || skip 'not root, or another user cannot come here'
    chmod a+rwx .
    np-train r.yaml --run expected -q --stop-after 6
    least=$(least_of -n 1)
    for limit in 4 5 6; do
        other_user bash -c "ulimit -u $limit && exec np-train r.yaml --run run$limit -q \
            --stop-after 6 -n 1 --threads 1 --device-memory $least --stash scratch"
        np-verify expected run$limit
        [ ! -e scratch ]
    done
}

@test "bad stashes" {
    touch there
    run np-train r.yaml --run a --device-memory 10MiB --stash there
    [ "$status" -eq 2 ]
    [[ "${lines[0]}" == *"'there'"* ]]
    [ ! -s there ]
    [ ! -e a ]
    run np-train r.yaml --run a --device-memory 10MiB --stash no/where
    [ "$status" -eq 2 ]
    [[ "${lines[0]}" == *"'no/where'"* ]]
    run np-train r.yaml --run a --stash scratch
    [ "$status" -eq 2 ]
    said "np-train: error: --stash needs --device-memory, or a plan that has it, and one replica"
    run np-train r.yaml --run a --schedule sequential --device-memory 10MiB
    [ "$status" -eq 2 ]
    said "np-train: --schedule sequential keeps everything on the device"
}

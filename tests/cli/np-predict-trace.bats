#!/usr/bin/env bats
# np-predict-trace: the speed the schedule promises, timelines in every format, comparisons.

load common

setup() {
    fresh_directory
    small_recipe
}

published() {
    stream=$NP_TEST_DATA/published-112x24.subnets
    [ -r "$stream" ] || skip "no $stream"
    run np-predict-trace --subnets "$stream" --blocks 112 --candidates 24 -n 8 --steps 600 "$@"
    [ "$status" -eq 0 ]
}

@test "published stream, 8 stages: the published rule reaches 1.1 to 1.2" {
    published --schedule naspipe
    between 1.1 "$(value speedup)" 1.2
}

@test "published stream, 8 stages: csp with 8 micro-batches reaches 7.0" {
    published -M 8
    between 7.0 "$(value speedup)" 8
}

@test "published stream, 8 stages: csp with 16 micro-batches reaches 7.9" {
    unsanitized
    published -M 16
    between 7.9 "$(value speedup)" 8
}

@test "published stream, 8 devices: the shorter the replicas, the faster with 8 micro-batches" {
    unsanitized
    published -M 8
    one=$(value speedup)
    published -M 8 --replicas 2 -n 4
    [ "$(value stages)" = 4 ]
    between 7.45 "$(value speedup)" 8
    between 1.05 "$(awk -v x="$(value speedup)" -v y="$one" 'BEGIN { print x / y }')" 1.13
    published -M 8 --replicas 4 -n 2
    between 7.95 "$(value speedup)" 8
}

@test "48 x 72, 16 stages: csp with 8 micro-batches reaches 15.5" {
    run np-predict-trace --blocks 48 --candidates 72 -n 16 -M 8 --steps 600
    [ "$status" -eq 0 ]
    between 15.5 "$(value speedup)" 16
}

@test "published stream: 98 % hits with a look-ahead of 96 steps, at the speed of all layers there" {
    unsanitized
    published -M 8
    all=$(value speedup)
    published -M 8 --capacity 4
    [ "$(value lookahead)" = 96 ]
    between 0.98 "$(value hit_rate)" 1
    between "$(awk -v x="$all" 'BEGIN { print 0.99 * x }')" "$(value speedup)" "$all"
    published -M 8 --capacity 4 --prefetch demand
    between 0.5 "$(value hit_rate)" 0.9
    between 4 "$(value speedup)" 6
    published -M 8 --capacity 4 --prefetch lru
    between 0.5 "$(value hit_rate)" 0.85
}

@test "the window is no larger than the room, if nothing is said, and never below 2" {
    for room in 1:2 2:2 3:3 8:8 9:8; do
        run np-predict-trace --blocks 8 --candidates 4 -n 8 -M 4 --steps 20 --capacity ${room%:*}
        [ "$(value window)" = ${room#*:} ]
    done
    run np-predict-trace --blocks 8 --candidates 4 -n 8 -M 4 --steps 20 --capacity 2 -W 5
    [ "$(value window)" = 5 ]
    run np-predict-trace --blocks 48 --candidates 72 -n 16 --steps 300 --capacity 4
    between 14.5 "$(value speedup)" 16
}

@test "a visit is a pass of a step over a layer, whatever the policy and the micro-batches" {
    for how in ahead next demand lru; do
        run np-predict-trace --blocks 8 --candidates 4 -n 4 -M 8 --steps 50 --capacity 1 --prefetch $how
        [ $(($(value hits) + $(value late) + $(value misses))) -eq $((8 * 2 * 50)) ]
    done
}

@test "a device memory: what it costs, and never more than there is" {
    least=$(least_of -n 2)
    np-partition r.yaml -n 2 --profile-from model --device-memory "$least" -o plan.yaml
    run np-predict-trace r.yaml --plan plan.yaml --steps 48
    [ "$(value bytes_in)" -gt 0 ]
    between -0.0001 "$(sed -n 's/.*step_ms: \([0-9.]*\).*/\1/p' plan.yaml |
        awk -v ms="$(value step_ms)" '{ print $1 - ms }')" 0.0001
    run np-predict-trace r.yaml --plan plan.yaml --device-memory 1GiB
    [ "$(value hits)" -gt 0 ]
    [ "$(value bytes_in) $(value bytes_out)" = '0 0' ]
    [ "$(value copy_busy) $(value stall)" = '0.0000 0.0000' ]
    free=$(value makespan)
    last=$free
    for bandwidth in 10GiB 100MiB 10MiB; do
        run np-predict-trace r.yaml --plan plan.yaml --stash-bandwidth $bandwidth
        [ "$(value bytes_in)" -gt 0 ]
        [ "$(value bytes_out)" -gt 0 ]
        [ "$(value makespan)" -gt "$last" ]
        [ $(($(value late) + $(value misses))) -gt 0 ]
        between 0.0001 "$(value stall)" "$(value bubble)" # of which it is a part
        between 0.0001 "$(value copy_busy)" 1
        last=$(value makespan)
        for peak in $(value peak_memory); do [ "$peak" -le "$least" ]; done
        [[ "$(value peak_memory)" == *"$least"* ]]
    done
    run np-predict-trace r.yaml -n 2 --device-memory $((least - 1))
    [ "$status" -eq 1 ]
    run np-predict-trace r.yaml --plan plan.yaml --device-memory $((least - 1))
    [ "$status" -eq 2 ]
    too_little="bytes is too little for this plan: it needs $least ("
    [[ "$output" == "np-predict-trace: error: a device memory of $((least - 1)) $too_little"* ]]
    sed -i "s/^device_memory: .*/device_memory: 4096/" plan.yaml
    run np-predict-trace r.yaml --plan plan.yaml
    [ "$status" -eq 2 ]
    place=plan.yaml:$(sed -n '/^device_memory/=' plan.yaml):16
    [[ "$output" == "np-predict-trace: error: $place: a device memory of 4096 $too_little"* ]]
}

@test "a summary adds up" {
    run np-predict-trace --blocks 12 --candidates 4 -n 3 -M 2 -W 3 --steps 10
    [ "$status" -eq 0 ]
    [ "$(value schedule)" = csp ]
    [ "$(value steps)" = 10 ]
    [ "$(value stages)" = 3 ]
    [ "$(value micro_batches)" = 2 ]
    [ "$(value window)" = 3 ]
    [ "$(value time_unit)" = block ]
    [ "$(value sequential)" = $((12 * 3 * 2 * 10)) ]
    [ "$(value tasks)" = $((12 * 3 * 2 * 10)) ]
    awk -v s="$(value sequential)" -v m="$(value makespan)" -v x="$(value speedup)" \
        'BEGIN { exit !(x - s / m < 1e-4 && s / m - x < 1e-4) }'
}

@test "one stage and the sequential schedule take all the time there is" {
    run np-predict-trace --blocks 6 --candidates 3 -n 1 --steps 20
    [ "$status" -eq 0 ]
    [ "$(value makespan)" = "$(value sequential)" ]
    run np-predict-trace --blocks 6 --candidates 3 -n 3 --steps 20 --schedule sequential
    [ "$status" -eq 0 ]
    [ "$(value makespan)" = "$(value sequential)" ]
}

@test "conflicts are counted inside the window" {
    printf '0 0\n0 1\n1 1\n' > s
    run np-predict-trace --subnets s --blocks 2 --candidates 2 -n 2 -W 2
    [ "$(value conflict_rate)" = 0.3333 ]
    run np-predict-trace --subnets s --blocks 2 --candidates 2 -n 2 -W 1
    [ "$(value conflict_rate)" = 0.0000 ]
}

@test "the members of a step conflict with other steps, and candidates with one layer's weights" {
    blocks='space.blocks=[{repeat: 4, choices: [{op: ffn, ratio: 1}, {op: ffn}]}]'
    parts='space.blocks=[{repeat: 4, weights: entangled, choices: [{op: ffn, ratio: 1}, {op: ffn}]}]'
    printf '0 0 0 0\n0 0 0 0\n0 0 0 0\n1 1 1 1\n1 1 1 1\n1 1 1 1\n' > s # of three steps
    run np-predict-trace r.yaml --subnets s -n 2 -W 3 --costs unit -s "$blocks" \
        -s 'sampler={members: 2}'
    [ "$(value conflict_rate)" = 0.5000 ] # the 0 of the second step, both 1 of the third
    run np-predict-trace r.yaml --subnets s -n 2 -W 3 --costs unit -s "$parts" \
        -s 'sampler={members: 2}'
    [ "$(value conflict_rate)" = 0.6667 ] # all but the first step's
}

@test "the stream comes from a pipe, and another seed draws another" {
    run bash -c "printf '0 1\n1 0\n' | np-predict-trace --subnets - --blocks 2 --candidates 2 -n 2"
    [ "$status" -eq 0 ]
    [ "$(value steps)" = 2 ]
    np-predict-trace --blocks 9 --candidates 5 -n 3 --steps 30 --seed 1 --format tsv > a
    np-predict-trace --blocks 9 --candidates 5 -n 3 --steps 30 --seed 1 --format tsv > b
    np-predict-trace --blocks 9 --candidates 5 -n 3 --steps 30 --seed 2 --format tsv > c
    cmp a b
    run cmp -s a c
    [ "$status" -eq 1 ]
    np-predict-trace --blocks 9 --candidates 5 -n 3 --seed 18446744073709551615 > c
    refuses "--seed must be a whole number from 0 to 2^64-1, not '18446744073709551616'" \
        --blocks 9 --candidates 5 -n 3 --seed 18446744073709551616
}

@test "a table compares all schedules" {
    run np-predict-trace r.yaml -n 3 --schedule all
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 6 ]
    [ "$(cut -f 1 <<< "$output" | paste -sd ' ')" = "schedule csp sequential gpipe 1f1b naspipe" ]
    run np-predict-trace r.yaml -n 3 --schedule all -s 'sampler={members: 2}'
    [ "$status" -eq 0 ]
    [ "$(cut -f 1 <<< "$output" | paste -sd ' ')" = "schedule csp sequential gpipe 1f1b" ]
}

@test "a recipe's plan is made, or read, or piped" {
    np-predict-trace r.yaml -n 3 > made
    np-partition r.yaml -n 3 --profile-from model -q > plan.yaml
    np-predict-trace r.yaml --plan plan.yaml > read
    np-predict-trace r.yaml --plan - < plan.yaml > piped
    cmp made read
    cmp made piped
    run np-predict-trace r.yaml --plan plan.yaml --window 2 --costs unit
    [ "$status" -eq 0 ]
    [ "$(value window)" = 2 ]
    [ "$(value time_unit)" = block ]
    [ "$(value sequential)" = $((200 * 6 * 3 * $(value micro_batches))) ]
    [ "$(value makespan)" -lt "$(value sequential)" ] # tasks take no time of their own
    refused "a stash in a file takes a time that only --costs plan knows" \
        np-predict-trace r.yaml -n 2 --device-memory 16MiB --stash-bandwidth 1GiB --costs unit
}

@test "--window leaves out the plan's in_flight" {
    np-partition r.yaml -n 3 -W 1 -M 4 --cut static --profile-from model -q > plan.yaml
    grep -q in_flight plan.yaml
    sed 's/in_flight: [0-9]*, //' plan.yaml > free.yaml
    for window in 1 2 4; do
        np-predict-trace r.yaml --plan plan.yaml --window $window > a
        np-predict-trace r.yaml --plan free.yaml --window $window > b
        cmp a b
    done
    np-predict-trace r.yaml --plan plan.yaml > a
    np-predict-trace r.yaml -n 3 -W 1 -M 4 --cut static > b
    cmp a b
}

@test "the predicted step time of a plan is what is predicted for its steps" {
    np-partition r.yaml -n 2 --profile-from model -q > plan.yaml
    run np-predict-trace r.yaml --plan plan.yaml --steps 48
    planned=$(sed -n 's/.*step_ms: \([0-9.]*\).*/\1/p' plan.yaml)
    awk -v a="$(value step_ms)" -v b="$planned" 'BEGIN { d = a - b; exit !(d * d < 1e-6) }'
    planned=$(sed -n 's/.*bubble: \([0-9.]*\).*/\1/p' plan.yaml)
    between 0.01 "$planned" 0.5
    [ "$(value bubble)" = "$planned" ]
}

@test "tsv: no stage does two things at once, and every task is there" {
    np-predict-trace --blocks 8 --candidates 3 -n 4 -M 2 --steps 12 --format tsv > t
    [ "$(head -n 1 t)" = "$(printf 'stage\tkind\tstep\tmember\tmicro\tfirst\tcount\tstart\tend\tdevice')" ]
    [ "$(wc -l < t)" -eq $((1 + 8 * 3 * 2 * 12)) ]
    tail -n +2 t | sort -t "$(printf '\t')" -k1,1n -k8,8n |
        awk -F '\t' '$1 == stage && $8 < end { bad = 1 } { stage = $1; end = $9 } END { exit bad }'
}

@test "tsv: tasks that take no time are there, too" {
    np-predict-trace r.yaml -n 8 -M 1 --steps 1 --costs unit --format tsv > t
    run np-predict-trace r.yaml -n 8 -M 1 --steps 1 --costs unit
    [ "$(wc -l < t)" -eq $((1 + $(value tasks))) ]
}

@test "svg is well-formed, self-contained and named" {
    np-predict-trace r.yaml --replicas 1 -n 3 --format svg -o t.svg
    grep -q 'csp, 3 stages: ' t.svg
    lacks '<script' t.svg
    lacks href t.svg
    if command -v xmllint > /dev/null; then
        xmllint --noout t.svg
    else
        skip "no xmllint"
    fi
}

@test "chrome traces are JSON with every task; a piece is smaller" {
    np-predict-trace r.yaml -n 3 --steps 20 --format chrome -o t.json
    tasks=$(np-predict-trace r.yaml -n 3 --steps 20 | awk '$1 == "tasks" { print $2 }')
    if ! command -v jq > /dev/null; then skip "no jq"; fi
    [ "$(jq '[.traceEvents[] | select(.ph == "X")] | length' t.json)" = "$tasks" ]
    np-predict-trace r.yaml -n 3 --steps 20 --format chrome --first 5 --show 3 -o u.json
    [ "$(jq '.traceEvents | length' u.json)" -lt "$(jq '.traceEvents | length' t.json)" ]
}

@test "a prediction agrees with itself" {
    np-partition r.yaml -n 3 --profile-from model -q > plan.yaml
    mkdir run
    np-predict-trace r.yaml --plan plan.yaml --steps 25 --format chrome -o run/trace.json
    run np-predict-trace r.yaml --plan plan.yaml --against run
    [ "$status" -eq 0 ]
    [ "$(value steps)" = 25 ]
    between -0.01 "$(value error_percent)" 0.01
    cp run/trace.json before
    for output in run/trace.json ./run/trace.json; do
        refuses "--output '$output' would overwrite 'run/trace.json'" \
            r.yaml --plan plan.yaml --against run -o $output
    done
    cmp run/trace.json before
    run np-predict-trace r.yaml --plan plan.yaml --against run
    [ "$(value matched_tasks)" = 1.0000 ]
    [ "$(value order_agreement)" = 1.0000 ]
    [ "$(value median_task_ratio)" = 1.0000 ]
    sed -E 's/(_ns: [0-9]+)/\10/g' plan.yaml > slow.yaml
    run np-predict-trace r.yaml --plan slow.yaml --against run
    between 0.09 "$(value median_task_ratio)" 0.2
    between 500 "$(value error_percent)" 1000
}

@test "a trace of another schedule agrees less" {
    np-partition r.yaml -n 3 -W 4 --profile-from model -q > plan.yaml
    np-predict-trace r.yaml --plan plan.yaml --window 1 --steps 25 --format chrome -o slow.json
    run np-predict-trace r.yaml --plan plan.yaml --against slow.json
    [ "$status" -eq 0 ]
    between -99 "$(value error_percent)" -1
    between 0.01 "$(value order_agreement)" 0.99
}

refuses() {
    local message=$1
    shift
    run np-predict-trace "$@"
    [ "$status" -eq 2 ]
    said "np-predict-trace: $message"
}

@test "options that contradict each other" {
    refuses "give a recipe, or --blocks and --candidates"
    refuses "give a recipe, or --blocks and --candidates" --blocks 4
    refuses "--blocks and --candidates are for use without a recipe" r.yaml --blocks 4
    for option in '--devices 1' '--threads 2' '--isa scalar' '--profile-from measure' '--set seed=1'; do
        # shellcheck disable=SC2086
        refuses "--devices, --threads, --isa, --profile-from and --set need a recipe" \
            --blocks 4 --candidates 2 -n 2 $option
    done
    refuses "--plan has the costs: leave out --isa and --profile-from" r.yaml --plan p --isa scalar
    refuses "--plan, --against and --costs plan need a recipe" --blocks 4 --candidates 2 --plan p
    refuses "--plan decides devices, replicas, stages, micro-batches and threads" r.yaml --plan p -n 3
    refuses "--capacity and --fetch-time are for use without a recipe" r.yaml --capacity 3
    refuses "--device-memory and --stash-bandwidth need a recipe" \
        --blocks 4 --candidates 2 --stash-bandwidth 1MiB
    refuses "--fetch-time needs --capacity" --blocks 4 --candidates 2 --fetch-time 2
    refuses "error: --stash-bandwidth needs --device-memory, or a plan that has it, and one replica" \
        r.yaml -n 2 --stash-bandwidth 1MiB
    refuses "--schedule all has a summary only" r.yaml --schedule all --format svg
    refuses "--schedule all reads the stream again and again: give a file" \
        --blocks 4 --candidates 2 --schedule all --subnets -
    for option in '--format svg' '--steps 5' '--first 3' '--show 2'; do
        refuses "--against compares all steps of a run, in a text: leave out --format, --steps, --first and --show" \
            r.yaml --against a.json $option
    done
    refuses "--reach is of balanced cuts: sweep it, and leave out cut" \
        --blocks 4 --candidates 2 --reach 1 --sweep cut=static,balanced
    refuses "one input alone can be standard input" r.yaml --plan - --subnets -
    refuses "one input alone can be standard input" - --plan -
}

@test "a sweep has a line for each combination, that of a single simulation" {
    np-predict-trace --blocks 12 --candidates 4 --steps 30 --sweep stages=1..3,window=1,2,5..6 > t
    [ "$(head -n 1 t)" = "$(printf 'replicas\tstages\tmicro_batches\twindow\tlookahead\treach\tcapacity\tmakespan\tspeedup\tbubble\thit_rate')" ]
    [ "$(tail -n +2 t | cut -f 2,4 | paste -sd ' ')" = \
        "$(for n in 1 2 3; do for w in 1 2 5 6; do printf '%d\t%d\n' $n $w; done; done | paste -sd ' ')" ]
    run np-predict-trace --blocks 12 --candidates 4 --steps 30 -n 3 -W 5
    [ "$(sed -n 12p t)" = "$(printf '1\t3\t8\t5\t16\t0\t-\t%s\t%s\t%s\t-' "$(value makespan)" \
        "$(value speedup)" "$(value bubble)")" ]
    run np-predict-trace --blocks 12 --candidates 4 --steps 30 -n 3 --capacity 2 --lookahead 7
    np-predict-trace --blocks 12 --candidates 4 --steps 30 -n 3 --fetch-time 1 \
        --sweep lookahead=3,7,capacity=1..2 > t
    [ "$(tail -n 1 t | cut -f 5,7,8,11)" = "$(printf '7\t2\t%s\t%s' "$(value makespan)" \
        "$(value hit_rate)")" ]
}

@test "a sweep over replicas has no room to share, nor one over rooms replicas" {
    message='replicas share all layers: --capacity is for one'
    refuses "error: capacity 2: $message" --blocks 8 --candidates 3 -n 4 -M 4 --replicas 2 --sweep capacity=2,4
    refuses "error: replicas 2: $message" --blocks 8 --candidates 3 -n 4 -M 4 --capacity 4 --sweep replicas=1,2
}

@test "a device memory is that of the cut which other costs make" {
    least=$(least_of -n 3)
    run np-predict-trace r.yaml -n 3 --device-memory "$least" --steps 40
    [ "$status" -eq 0 ]
    run np-predict-trace r.yaml -n 3 --device-memory "$least" --steps 40 --costs unit
    [ "$status" -eq 0 ] || [[ $output == *'is too little for this plan: it needs'* ]]
}

@test "a sweep over cuts" {
    np-predict-trace --blocks 12 --candidates 4 --costs lognormal --steps 30 -n 3 \
        --sweep cut=static,balanced > t
    [ "$(tail -n +2 t | cut -f 6 | paste -sd ' ')" = '0 2' ]
    np-predict-trace --blocks 12 --candidates 4 --costs lognormal --steps 30 -n 3 \
        --sweep reach=1..3 > t
    [ "$(tail -n +2 t | cut -f 6 | paste -sd ' ')" = '1 2 3' ]
    for reach in 1 3; do
        run np-predict-trace --blocks 12 --candidates 4 --costs lognormal --steps 30 -n 3 \
            --reach $reach
        [ "$(value reach)" = $reach ]
        [ "$(awk -v r=$reach '$6 == r { print $8 }' t)" = "$(value makespan)" ]
    done
    np-partition r.yaml -n 2 --profile-from model -q > plan.yaml
    np-predict-trace r.yaml --plan plan.yaml --steps 20 --sweep reach=1,2 > t
    [ "$(tail -n +2 t | cut -f 6 | paste -sd ' ')" = '1 2' ]
}

@test "a sweep over replicas: those of a single simulation, with a recipe and without" {
    np-predict-trace --blocks 12 --candidates 4 --steps 30 -n 2 -M 4 --sweep replicas=1,2,4 > t
    [ "$(tail -n +2 t | cut -f 1 | paste -sd ' ')" = "1 2 4" ]
    run np-predict-trace --blocks 12 --candidates 4 --steps 30 -n 2 -M 4 --replicas 4
    [ "$(value replicas)" = 4 ]
    [ "$(sed -n 4p t | cut -f 8)" = "$(value makespan)" ]
    np-partition r.yaml --threads 1 -n 2 -M 4 --replicas 2 --profile-from model -q > plan.yaml
    grep -qx 'replicas: 2' plan.yaml
    run np-predict-trace r.yaml --plan plan.yaml --steps 20
    makespan=$(value makespan)
    np-predict-trace r.yaml --threads 1 -n 2 -M 4 --steps 20 --sweep replicas=1,2 > t
    [ "$(tail -n 1 t | cut -f 8)" = "$makespan" ]
    refuses "error: only csp has replicas" r.yaml --plan plan.yaml --schedule gpipe
    run np-predict-trace r.yaml --plan plan.yaml --steps 20 --device-memory 1GiB
    [ "$(value makespan)" = "$makespan" ]
    run np-predict-trace r.yaml --plan plan.yaml --steps 20 --device-memory 1MiB
    [ "$status" -eq 2 ]
    [[ ${lines[0]} == *"a device memory of 1048576 bytes is too little for this plan: it needs"* ]]
    refuses "replicas share all layers: --capacity is for one" \
        --blocks 4 --candidates 2 --replicas 2 --capacity 2
    refuses "error: 3 replicas cannot share 8 micro-batches evenly" \
        --blocks 4 --candidates 2 -n 2 --replicas 3
}

@test "a sweep over memory: what does not fit has no answer" {
    np-predict-trace r.yaml -n 2 --steps 20 --sweep device-memory=4KiB,1GiB,micro-batches=1,2 > t
    [ "$(wc -l < t)" -eq 5 ]
    [ "$(sed -n 2p t)" = "$(printf -- '-\t-\t1\t-\t-\t-\t4096\t-\t-\t-\t-')" ]
    [ "$(tail -n 1 t | cut -f 2,3,7)" = "$(printf '2\t2\t1073741824')" ]
    np-partition r.yaml -n 2 --profile-from model -q > plan.yaml
    np-predict-trace r.yaml --plan plan.yaml --sweep window=1..2 --steps 20 > t
    run np-predict-trace r.yaml --plan plan.yaml --window 2 --steps 20
    [ "$(tail -n 1 t | cut -f 8)" = "$(value makespan)" ]
}

@test "bad sweeps" {
    sweep() {
        refuses "--sweep: $1" --blocks 4 --candidates 2 --sweep "$2"
    }
    sweep "'stages' is not KEY=VALUES, such as stages=1..8" stages
    sweep "unknown key 'stage' (did you mean 'stages'?)" window=1,stage=2
    sweep "unknown key ''" =2
    sweep "'window' is there twice" window=1,window=2
    for bad in '' 0 x 3..1 1.. ..2 1..2000 1.5; do
        sweep "stages must be whole numbers from 1 to 1024 or ranges of them such as 1..8, not '$bad'" \
            "stages=$bad"
    done
    sweep "more than 100000 combinations" stages=1..1000,window=1..1000
    sweep "cut is static or balanced, not 'auto'" cut=static,auto
    sweep "reach is of balanced cuts, leave out cut" cut=static,reach=1
    refuses "--sweep and --reach both say reach" --blocks 4 --candidates 2 --reach 2 --sweep reach=1
    sweep "device-memory needs a recipe" device-memory=1GiB
    refuses "--sweep: '1GB' is not a size such as 512MiB or 2GiB" r.yaml --sweep device-memory=1GB
    refuses "--sweep: capacity is for use without a recipe" r.yaml --sweep capacity=1
    refuses "--sweep and --window both say window" r.yaml --window 2 --sweep window=1
    refuses "--plan decides replicas, stages and micro-batches, not --sweep" \
        r.yaml --plan p --sweep stages=1
    refuses "--sweep has a table only, of one schedule" r.yaml --format svg --sweep window=1
    refuses "--sweep reads its input again and again: give files" r.yaml --plan - --sweep window=1
    refuses "error: micro-batches 3: micro-batches must divide 8, the grains of a mini-batch (batch 8, grain 1), and 3 does not" \
        r.yaml -n 2 --sweep micro-batches=1..8
    refuses "error: stages 5: 5 stages are too many for 4 blocks" \
        --blocks 4 --candidates 2 --sweep stages=3..5
}

@test "bad values of options" {
    refuses "unknown --schedule 'csq' (did you mean 'csp'?)" r.yaml --schedule csq
    refuses "unknown --format 'sgv' (did you mean 'svg'?)" r.yaml --format sgv
    refuses "unknown --costs 'free' (known: plan, unit, lognormal)" r.yaml --costs free
    refuses "unknown --prefetch 'nxt' (did you mean 'next'?)" r.yaml --prefetch nxt
    refuses "--fetch-time must be a number from 0 to 1e+06, not '-1'" \
        --blocks 4 --candidates 2 --capacity 1 --fetch-time=-1
    refuses "--stash-bandwidth must be a size such as 512MiB or 2GiB, not 'fast'" \
        r.yaml --stash-bandwidth fast
    refuses "--steps must be a whole number from 1 to 9223372036854775807, not '0'" r.yaml --steps 0
    refuses "error: 9 stages are too many for 4 blocks" --blocks 4 --candidates 2 -n 9
    refuses "error: --first 40 is beyond the 20 steps simulated" \
        r.yaml -n 2 --steps 20 --first 40 --format svg
}

@test "bad files" {
    printf '0 1\n0 7\n' > s
    refuses "error: s:2:3: candidate 7 of block 1 is not in 0..1" \
        --blocks 2 --candidates 2 -n 2 --subnets s
    : > s
    refuses "error: the stream of subnets is empty" --blocks 2 --candidates 2 -n 2 --subnets s
    refuses "error: cannot open 'missing': No such file or directory" r.yaml --plan missing
    np-partition r.yaml -n 2 --profile-from model -q > plan.yaml
    refuses "error: plan.yaml:2:9: this plan was made for recipe $(sed -n 's/recipe: \(.\{8\}\).*/\1/p' plan.yaml)..., not $(np-partition r.yaml --set seed=8 -n 2 --profile-from model -q | sed -n 's/recipe: \(.\{8\}\).*/\1/p')..." \
        r.yaml --set seed=8 --plan plan.yaml
    echo '{"traceEvents": []}' > t.json
    refuses "error: t.json: no tasks in this trace" r.yaml --plan plan.yaml --against t.json
}

@test "a full disk is an error" {
    run bash -c 'np-predict-trace r.yaml -n 2 > /dev/full'
    [ "$status" -eq 2 ]
    said "np-predict-trace: error: cannot write standard output: No space left on device"
}

@test "progress on a terminal says what is left; none with -q" {
    command -v script > /dev/null || skip "no script to make a terminal"
    export TERM=vt100
    steps=$(some 4000 1000)
    long="np-predict-trace --blocks 48 --candidates 24 -n 8 --steps $steps -o out"
    script -qec "$long" /dev/null < /dev/null > typed
    tr '\r' '\n' < typed | grep -qE "step [0-9]+/$steps \| ETA [0-9]+:[0-9][0-9]"
    script -qec "$long -q" /dev/null < /dev/null > typed
    [ ! -s typed ]
    script -qec "np-predict-trace --blocks 12 --candidates 4 -n 2 --steps $steps \
        --sweep window=1..8 -o out" /dev/null < /dev/null > typed
    tr '\r' '\n' < typed | grep -qE '[0-9]/8: window [0-9] \| ETA [0-9]+:[0-9][0-9]'
}

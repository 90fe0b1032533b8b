#!/usr/bin/env bats
# --recompute: what operators save is computed again instead of being kept, with the same bits.

load common

setup() {
    fresh_directory
    small_recipe
}

# The largest stage's memory in the plan of these options, all layers there.
memory() {
    np-partition r.yaml --profile-from model "$@" | sed -n 's/.*memory_bytes: \([0-9]*\)}/\1/p' |
        sort -n | tail -n 1
}

@test "any number of stages, micro-batches and steps in flight gives the same bits" {
    np-train r.yaml --run all --schedule sequential
    tried=0
    while read -r options; do
        # shellcheck disable=SC2086 # options
        np-train r.yaml --run "r$tried" --recompute always $options
        same all "r$tried"
        [ "$(jq .plan.recompute "r$tried/run.json")" = true ]
        tried=$((tried + 1))
    done <<'END'
-n 1 --threads 2
-n 2 -W 4
-n 3 --unit 3 -M 2 -W 3
-n 3 -M 4 --cut balanced --inject-delays 5
--replicas 2 -n 2 -M 4
END
    [ "$tried" -eq 5 ]
}

@test "several subnets a step, dropout, batch norm, cells" {
    image_recipe
    np-train recipe.yaml --run all --schedule sequential
    np-train recipe.yaml --run again -n 3 --recompute always
    same all again
    sets=(--set 'sampler={kind: uniform, members: 3}'
        --set 'space.blocks=[{repeat: 4, choices: [{op: ffn, ratio: 2, act: gelu, dropout: 0.25}, {op: glu, dropout: 0.25}]}]')
    np-train r.yaml --run three --schedule sequential "${sets[@]}"
    np-train r.yaml --run again3 -n 2 -M 2 --recompute always "${sets[@]}"
    same three again3
}

@test "a run goes on with activations kept, and computed again" {
    np-train r.yaml --run all
    np-train r.yaml --run r -n 2 --recompute always --stop-after 7
    np-train r.yaml --run r --resume -n 2 --recompute never --stop-after 12
    np-train r.yaml --run r --resume -n 1 --recompute always
    same all r
}

@test "a plan says so, takes less memory and predicts more time" {
    np-partition r.yaml -n 2 --replicas 1 --profile-from model -o kept.yaml
    lacks recompute kept.yaml
    np-partition r.yaml -n 2 --replicas 1 --profile-from model --recompute always -o again.yaml
    grep -qx 'recompute: true' again.yaml
    [ "$(memory -n 2 --replicas 1 --recompute always)" -lt "$(memory -n 2 --replicas 1)" ]
    np-train r.yaml --run all --plan kept.yaml
    np-train r.yaml --run r --plan again.yaml
    same all r
    for plan in kept again; do
        np-predict-trace r.yaml --plan $plan.yaml -W 2 --steps 20 > $plan
        np-predict-trace r.yaml --plan $plan.yaml -W 2 --steps 20 --recompute never > $plan.never
        np-predict-trace r.yaml --plan $plan.yaml -W 2 --steps 20 --recompute always > $plan.always
    done
    cmp kept kept.never
    cmp again again.always
    [ "$(awk '$1 == "makespan" { print $2 }' again.never)" != \
        "$(awk '$1 == "makespan" { print $2 }' again)" ]
    between "$(awk '$1 == "makespan" { print 1.02 * $2 }' kept)" \
        "$(awk '$1 == "makespan" { print $2 }' kept.always)" \
        "$(awk '$1 == "makespan" { print 1.5 * $2 }' kept)"
}

@test "where memory is short it is chosen, and --max-batch counts on it" {
    never=$(least_of -n 2 --recompute never)
    least=$(least_of -n 2)
    [ "$least" -lt "$never" ]
    np-partition r.yaml -n 2 --profile-from model --device-memory "$least" -o plan.yaml
    grep -qx 'recompute: true' plan.yaml
    np-partition r.yaml -n 2 --profile-from model --device-memory 1GiB -o plan.yaml
    lacks recompute plan.yaml
    np-train r.yaml --run all
    np-train r.yaml --run r -n 2 --device-memory "$least" --stash scratch
    same all r
    [ "$(jq .plan.recompute r/run.json)" = true ]
    np-partition r.yaml -n 1 --max-batch --device-memory 5MiB > options 2> said
    [[ "$(cat said)" = *", activations computed again" ]]
    np-partition r.yaml -n 1 --max-batch --device-memory 5MiB --recompute never > fewer 2> said
    lacks again said
    np-partition r.yaml -n 1 --max-batch --device-memory 1TiB > options.most 2> said
    grep -q 'the most that a recipe may have' said # there is room for all
    lacks again said
    [ "$(sed 's/.*batch=\([0-9]*\).*/\1/' options)" -gt "$(sed 's/.*batch=\([0-9]*\).*/\1/' fewer)" ]
}

@test "-v says of each alternative whether it computes again" {
    np-partition r.yaml -n 1 -M 1 --profile-from model --device-memory 1GiB -v -o plan.yaml 2> said
    [ "$(awk '$6 == "no" || $5 == "no" { n++ } END { print n }' said)" -ge 1 ]
    [ "$(awk '$6 == "yes" || $5 == "yes" { n++ } END { print n }' said)" -ge 1 ]
    np-partition r.yaml -n 1 --profile-from model --recompute always -v -o plan.yaml 2> said
    grep -q 'a stage, activations computed again: ' said
}

@test "one replica, unless more are asked for" {
    np-partition r.yaml --devices 4 -M 4 --profile-from model --recompute always -v -o plan.yaml 2> said
    [ "$(awk '/^[* ] +[0-9]/ { sub(/^[* ] */, ""); print $1 }' said | sort -u)" = 1 ]
    np-partition r.yaml --replicas 2 -M 4 --profile-from model --recompute always -o plan.yaml
    grep -qx 'replicas: 2' plan.yaml
}

@test "bad values" {
    run np-train r.yaml --run r --recompute sometimes
    [ "$status" -eq 2 ]
    said "np-train: unknown --recompute 'sometimes' (known: auto, never, always)"
    np-partition r.yaml -n 2 --profile-from model -o plan.yaml
    run np-train r.yaml --run r --plan plan.yaml --recompute always
    [ "$status" -eq 2 ]
    run np-train r.yaml --run r --schedule sequential --recompute always
    [ "$status" -eq 2 ]
    said "np-train: --schedule sequential keeps what operators save"
    run np-predict-trace --blocks 4 --candidates 2 --recompute always
    [ "$status" -eq 2 ]
    said "np-predict-trace: --recompute needs a recipe, whose layers it is about"
    sed -i 's/^unit: .*/&\nrecompute: 3/' plan.yaml
    run np-train r.yaml --run r --plan plan.yaml
    [ "$status" -eq 2 ]
    said "np-train: error: plan.yaml:7:12: 'recompute' must be true or false, not '3'"
    [ ! -e r ]
}

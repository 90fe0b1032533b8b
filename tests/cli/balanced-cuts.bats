#!/usr/bin/env bats
# cut: balanced: each step cut by its own costs, with the same bits.

load common

setup() {
    fresh_directory
    small_recipe
}

# plan_of CUT NAME OPTION...
plan_of() {
    np-partition r.yaml -n 3 --profile-from model --cut "$1" "${@:3}" -o "$2"
}

@test "the plan says how steps are cut, and tools read it" {
    plan_of static s.yaml
    [ "$(grep -c '^cut:' s.yaml)" -eq 0 ]
    plan_of balanced b.yaml --reach 2
    grep -qx 'cut: balanced' b.yaml
    grep -qx 'reach: 2' b.yaml
    run np-predict-trace r.yaml --plan b.yaml
    [ "$status" -eq 0 ]
    [ "$(value stages)" = 3 ]
    [ "$(value reach)" = 2 ]
    run np-predict-trace r.yaml --plan b.yaml --cut static
    [ "$(value reach)" = 0 ]
    run np-predict-trace r.yaml --plan s.yaml --cut balanced --reach 1
    [ "$(value reach)" = 1 ]
}

@test "balanced cuts give the bits of static ones, with and without a budget" {
    plan_of static s.yaml
    plan_of balanced b.yaml
    np-train r.yaml --run s --plan s.yaml
    np-train r.yaml --run b --plan b.yaml
    same s b
    least=$(least_of -n 3 --cut balanced)
    plan_of balanced m.yaml --device-memory "$least"
    np-train r.yaml --run m --plan m.yaml
    same s m
    np-train r.yaml --run f --plan m.yaml --stash scratch
    same s f
    run np-partition r.yaml -n 3 --profile-from model --cut balanced --device-memory $((least - 1))
    [ "$status" -eq 1 ]
}

@test "a unit of more positions than there are" {
    plan_of balanced b.yaml --unit 20
    grep -qx 'reach: 8' b.yaml
    np-train r.yaml --run s --schedule sequential
    np-train r.yaml --run b --plan b.yaml
    same s b
}

@test "a run is carried on from static to balanced cuts and back" {
    plan_of static s.yaml
    plan_of balanced b.yaml
    np-train r.yaml --run whole --plan s.yaml
    np-train r.yaml --run r --plan s.yaml --stop-after 3
    np-train r.yaml --run r --resume --plan b.yaml --stop-after 6
    np-train r.yaml --run r --resume --plan s.yaml
    same whole r
}

@test "layers of unequal cost: balanced cuts gain 3 %, with one micro-batch nothing" {
    speedup() {
        run np-predict-trace --blocks 48 --candidates 96 --costs lognormal "$@"
        [ "$status" -eq 0 ]
        x=$(value speedup)
    }
    speedup -M 8 --cut static
    fixed=$x
    speedup -M 8 --cut balanced
    between "$(awk "BEGIN { print 1.03 * $fixed }")" "$x" 8
    speedup -M 1 --cut static
    fixed=$x
    speedup -M 1 --cut balanced
    between "$(awk "BEGIN { print 0.99 * $fixed }")" "$x" "$(awk "BEGIN { print 1.01 * $fixed }")"
}

@test "what does not go together is refused" {
    run np-partition r.yaml -n 2 --cut static --reach 2
    [ "$status" -eq 2 ]
    [[ "${lines[0]}" == *"--reach is for balanced cuts" ]]
    run np-partition r.yaml -n 2 --profile-from model --reach 100
    [ "$status" -eq 2 ]
    [[ "$output" == *"a reach of 100 is too far"* ]]
    plan_of balanced b.yaml
    sed '/^cut:/d' b.yaml > bad.yaml
    run np-train r.yaml --run r --plan bad.yaml
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.yaml:"*"'reach' belongs to 'cut: balanced'"* ]]
}

#!/usr/bin/env bats
# np-verify: same or not, and the step, layer, tensor and element that differ.

load common

setup() {
    fresh_directory
    tiny_recipe
    export XDG_CACHE_HOME=$BATS_RUN_TMPDIR # measured once
}

# Puts into the run $1 an object of layer $2 whose float number $3 is changed, and seals the
# manifest: a difference as a broken machine would make it.
plant() {
    local m name new
    m=$(ls "$1"/checkpoints/*.manifest | tail -n 1)
    name=$(sed -n "s/^\([0-9a-f]*\)  .*  $2\$/\1/p" "$m")
    zstd -qdc "$1/objects/${name:0:2}/${name:2}" > bytes
    flip bytes $((4 * $3))
    new=$(sha256sum bytes | cut -c 1-64)
    mkdir -p "$1/objects/${new:0:2}"
    zstd -q bytes -o "$1/objects/${new:0:2}/${new:2}"
    sed -i "s/$name/$new/;\$d" "$m"
    echo "end $(sha256sum < "$m" | cut -c 1-64)" >> "$m"
}

@test "a line that a killed run left unfinished is none" {
    np-train recipe.yaml --run a --stop-after 4
    cp -r a b
    printf '4' >> b/ledger.tsv
    np-verify a b
    printf '4\t0x1.6p+2' >> a/ledger.tsv
    np-verify a b
}

@test "two runs that are the same" {
    np-train recipe.yaml --run a --schedule sequential
    np-train recipe.yaml --run b --stages 3
    run np-verify a b
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "same: 6 and 6 steps" ]
    [ "${lines[1]}" = "$(digest_of a)  a" ]
    [ "${lines[2]}" = "$(digest_of a)  b" ]
    [ "${#lines[@]}" -eq 3 ]
    run np-verify -q a b
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    np-verify --json a b | jq -e '.same and .a.digest == .b.digest and .a.steps == 6 and .b.run == "b"'
}

@test "a step whose ledger line differs" {
    np-train recipe.yaml --run a
    cp -r a b
    sed -i '4s/0x1/0x2/' b/ledger.tsv
    run np-verify a b
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "different: 6 and 6 steps" ]
    [ "${lines[3]}" = "first step that differs: 3" ]
    [ "${lines[4]}" = "checkpoints after 6 steps are the same" ]
    ends_with 1 np-verify --json a b > out
    jq -e '.same == false and .first_step == 3 and (.layer | not)' out
}

@test "other subnets: the step and the first layer of it" {
    printf '0 1 2 3\n0 1 2 3\n2 2 2 2\n' > s
    printf '0 1 2 3\n0 1 2 3\n2 1 2 2\n' > t
    np-train recipe.yaml --run a --subnets s --ledger layers
    np-train recipe.yaml --run b --subnets t --ledger layers
    run np-verify a b
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${lines[3]}" = "first step that differs: 2" ]
    [ "${lines[4]}" = "first layer of that step that differs: stem" ]
    [ "${lines[5]}" = "first layer that differs after 3 steps: stem" ]
    [[ "${lines[6]}" =~ ^"first element that differs: weights of "(token|position)".table, element "[0-9]+$ ]]
    [[ "${lines[7]}" =~ ^"  "-?0x[01]"."?[0-9a-f]*p[-+][0-9]+"  a"$ ]]
    [[ "${lines[8]}" =~ ^"  "-?0x[01]"."?[0-9a-f]*p[-+][0-9]+"  b"$ ]]
    ends_with 1 np-verify --json a b > out
    jq -e '.first_step == 2 and .first_step_layer == "stem" and .layer.checkpoint == 3 and
        .layer.name == "stem" and .layer.updates_a == 3 and .element.part == "weights"' out
}

@test "a planted bit: layer, part, tensor and element" {
    command -v zstd > /dev/null || skip "no zstd here to plant with"
    printf '1 1 2 3\n' > s
    np-train recipe.yaml --run a --subnets s
    # ffn, width 16, ratio 2: norm 16 + 16, up.weight 512, up.bias 32, down.weight 512, down.bias 16
    for case in "0 weights norm.gamma 0" "40 weights up.weight 8" "1103 weights down.bias 15" \
        "1104 first norm.gamma 0" "1141 first up.weight 5" "2208 second norm.gamma 0"; do
        read -r at part tensor element <<< "$case"
        [ $part = weights ] || part="$part moments"
        rm -rf b
        cp -r a b
        plant b block01.choice01 "$at"
        np-verify --fsck b
        run np-verify a b
        echo "$output"
        [ "$status" -eq 1 ]
        [ "${lines[3]}" = "ledgers are the same" ]
        [ "${lines[4]}" = "first layer that differs after 1 steps: block01.choice01" ]
        [ "${lines[5]}" = "first element that differs: $part of $tensor, element $element" ]
        ends_with 1 np-verify --json a b > out
        jq -e --arg t $tensor --arg p "$part" --argjson i $element \
            '.element.tensor == $t and .element.part == $p and .element.index == $i' out
    done
}

@test "one run is longer" {
    np-train recipe.yaml --run a
    np-train recipe.yaml --run b --stop-after 4
    run np-verify a b
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "different: 6 and 4 steps" ]
    [ "${lines[3]}" = "ledgers are the same up to step 4, where that of b ends" ]
    [ "${lines[4]}" = "no checkpoint of the same step to compare" ]
    np-train recipe.yaml --run b --resume
    np-verify a b
}

@test "runs that cannot be compared: exit 2" {
    np-train recipe.yaml --run a
    np-train recipe.yaml --run b --set seed=8
    refused "'a' and 'b' were made with different recipes and cannot be compared" np-verify a b
    echo more >> corpus.txt
    np-train recipe.yaml --run c
    refused "'a' and 'c' were made with different training data and cannot be compared" np-verify a c
    refused "cannot list 'none/checkpoints': No such file or directory" np-verify a none
    mkdir -p empty/checkpoints
    refused "'empty' holds no checkpoint" np-verify a empty
    refused "'empty' holds no checkpoint" np-verify empty a
}

@test "damaged runs cannot be compared: exit 2" {
    np-train recipe.yaml --run a
    cp -r a b
    truncate -s -1 b/checkpoints/*
    refused "b/checkpoints/0000000006.manifest: damaged manifest: its last line is not there" np-verify a b
    rm -rf b
    cp -r a b
    rm b/ledger.tsv
    refused "cannot open 'b/ledger.tsv': No such file or directory" np-verify a b
    refused "cannot open 'b/ledger.tsv': No such file or directory" np-verify b a
    rm -rf b
    cp -r a b
    sed -i 's/^seed: 7/seed: 9/' b/recipe.yaml
    refused "'b/recipe.yaml' is not the recipe of the run's checkpoints" np-verify b a
}

@test "--expect: yes and no" {
    np-train recipe.yaml --run a
    digest=$(digest_of a)
    run np-verify --expect "$digest" a
    [ "$status" -eq 0 ]
    [ "$output" = "same: $digest  a" ]
    other=${digest:1}0
    run np-verify --expect "$other" a
    [ "$status" -eq 1 ]
    [ "$output" = "different: $digest  a" ]
    ends_with 1 np-verify --json --expect "$other" a > out
    jq -e --arg d "$other" '.same == false and .expected == $d and .run.steps == 6' out
    refused "--expect 'abc' is not 64 hex digits" np-verify --expect abc a
}

@test "--fsck: sound, and every problem a line" {
    np-train recipe.yaml --run a --set train.checkpoint_every=2
    run np-verify --fsck a
    [ "$status" -eq 0 ]
    [[ "$output" =~ ^"sound: 3 checkpoints, "[0-9]+" objects, 0 problems  a"$ ]]
    for object in $(find a/objects -type f | head -n 3); do chmod u+w "$object" && : > "$object"; done
    np-verify --fsck a > out 2> talk || code=$?
    [ "$code" -eq 1 ]
    [ "$(wc -l < talk)" -eq 3 ]
    [[ "$(cat out)" == "damaged: "[0-2]" checkpoint"* ]]
    grep -q '^damaged: .*, 3 problems  a$' out
    run np-verify --fsck -q a
    [ "$status" -eq 1 ]
    [ -z "$output" ]
    ends_with 1 np-verify --fsck --json a 2> /dev/null > out
    jq -e '.sound == false and .problems == 3' out
    rm a/recipe.yaml
    run np-verify --fsck a
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "np-verify: cannot open 'a/recipe.yaml': No such file or directory" ]
    refused "cannot list 'none/checkpoints': No such file or directory" np-verify --fsck none
}

@test "--fsck on a terminal: how much is read, erased at the end; none with -q" {
    command -v script > /dev/null || skip "no script to make a terminal"
    export TERM=vt100
    np-train recipe.yaml --run a -q > digest
    script -qec "np-verify --fsck a" /dev/null < /dev/null > typed
    tr '\r' '\n' < typed | grep -q '1 objects read$'
    tail -n 1 typed | grep -q "$(printf '\r\033\\[K')sound: "
    script -qec "np-verify --fsck a -q" /dev/null < /dev/null > typed
    [ ! -s typed ]
}

@test "--fsck: bytes that no reader misses" {
    np-train recipe.yaml --run a
    spoilt() {
        local file=a/$1 said=$2
        shift 2
        cp "$file" kept
        "$@" "$file"
        run np-verify --fsck a
        echo "$output"
        [ "$status" -eq 1 ]
        [ "${lines[0]}" = "np-verify: $file$said" ]
        cp kept "$file"
    }
    spoilt recipe.yaml ": not the canonical form of a recipe" sed -i '/^  clip:/d'
    spoilt recipe.yaml ": not the canonical form of a recipe" truncate -s -1
    second=":2: damaged ledger: not a line of step 1"
    spoilt ledger.tsv "$second" sed -i '2s/\t0x/\t1x/'
    spoilt ledger.tsv "$second" sed -i '2s/\t0x1[^\t]*/\t/'
    spoilt ledger.tsv "$second" sed -i -E '2s/\t[0-9a-f]{16}\t/\t-1\t/'
    spoilt ledger.tsv "$second" sed -i -E '2s/\t[0-9a-f]([0-9a-f]{15}\t)/\tF\1/'
    spoilt ledger.tsv "$second" sed -i '2s/[^\t]*$/1.25/'
    spoilt ledger.tsv "$second" sed -i -E '2s/p([+-][0-9]+\t[^\t]*)$/000001p\1/' # of no float
    spoilt ledger.tsv "$second" sed -i '2s/\t[^\t]*$//'
    spoilt ledger.tsv "$second" sed -i '2s/$/\t1/'
    spoilt ledger.tsv ":2: damaged ledger: step 1 expected" sed -i '2s/$/\x00/'
    np-verify --fsck a
    np-train recipe.yaml --run b --set 'sampler={members: 2}' --ledger layers
    np-verify --fsck b
    sed -i '3s/0/1/' b/layers.tsv
    run np-verify --fsck b
    [ "$status" -eq 1 ]
    [[ "${lines[0]}" == "np-verify: b/layers.tsv:"[1-3]": damaged ledger: the layers of step 0 do "* ]]
}

@test "a run directory's names do not leave it or reach the terminal raw" {
    np-train recipe.yaml --run a
    m=$(echo a/checkpoints/*)
    sed -i '5s/  block.*/  \x1b[2J/' "$m"
    { sed '$d' "$m"; printf 'end %s\n' "$(sed '$d' "$m" | sha256sum | cut -c 1-64)"; } > new
    mv new "$m"
    run np-verify --fsck a
    [ "$status" -eq 1 ]
    [[ "$output" == *'\x1b[2J'* ]]
    lacks "$(printf '\033')" <(printf '%s' "$output")
}

@test "names from the command line: a line each, and nothing for the terminal" {
    name=$'n\nl\e[1m'
    np-train recipe.yaml --run "$name" > digest
    run np-verify --expect "$(tr -d '\\' < digest | cut -c 1-64)" "$name"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == 'same: '*'  n\x0al\x1b[1m' ]]
    np-verify "$name" "$name" > out # sha256sum's form
    [ "$(sed -n 2p out)" = "$(cat digest)" ]
    [ "$(sed -n 3p out)" = "$(cat digest)" ]
    run np-verify --fsck "$name"
    [ "${#lines[@]}" -eq 1 ]
    [[ "${lines[0]}" == 'sound: '*'  n\x0al\x1b[1m' ]]
    run np-verify a b $'\e[1m'
    [ "${lines[0]}" = "np-verify: two runs are enough: '\x1b[1m' is left over" ]
    run np-verify --fsck ''
    [ "$status" -eq 2 ]
    [ "${lines[0]}" = "np-verify: a run directory has a name" ]
}

@test "--json and -q have the exit code of the answer" {
    np-train recipe.yaml --run a
    np-train recipe.yaml --run b --stop-after 4
    run np-verify --json a b
    [ "$status" -eq 1 ]
    run np-verify --json --expect "$(digest_of b)" a
    [ "$status" -eq 1 ]
    run np-verify -q --expect "$(digest_of b)" a
    [ "$status" -eq 1 ]
    [ -z "$output" ]
    rm "$(find b/objects -type f | head -n 1)"
    run np-verify --json --fsck b
    [ "$status" -eq 1 ]
}

@test "the latest checkpoint that both have is compared" {
    np-train recipe.yaml --run a --set train.checkpoint_every=2
    np-train recipe.yaml --run b --set train.checkpoint_every=2 --stop-after 5
    for pair in 'a b' 'b a'; do
        # shellcheck disable=SC2086 # two words
        run np-verify $pair
        [ "$status" -eq 1 ]
        [ "${lines[4]}" = "checkpoints after 4 steps are the same" ]
    done
}

@test "--fsck: versions that shared layers with a delay keep" {
    np-train recipe.yaml --run b --set shared='{policy: delay, steps: 3}' --stages 3
    np-verify --fsck b
}

# Seals the latest manifest of the run $1 after sed's $2.
reseal() {
    local m
    m=$(ls "$1"/checkpoints/*.manifest | tail -n 1)
    sed -i -e "$2" -e '$d' "$m"
    sort -o sorted -k 3,3 <(tail -n +5 "$m")
    { head -n 4 "$m"; cat sorted; } > sealed
    mv sealed "$m"
    echo "end $(sha256sum < "$m" | cut -c 1-64)" >> "$m"
}

@test "--fsck: a version has one name, a number one form" {
    np-train recipe.yaml --run a --set 'shared={policy: delay, steps: 3}' --stop-after 4
    reseal a ''
    np-verify --fsck a
    cp -r a b
    reseal b '/ stem@-2$/d;s/\(.*\)stem@-1$/&\n\1stem@-01/'
    run np-verify --fsck b
    [ "$status" -eq 1 ]
    said "np-verify: b/checkpoints/0000000004.manifest: the recipe has no layer 'stem@-01'"
    rm -rf b
    cp -r a b
    reseal b 's/^step 4/step 04/'
    run np-verify --fsck b
    [ "$status" -eq 1 ]
    said 'np-verify: b/checkpoints/0000000004.manifest:4: damaged manifest: not a step'
    rm -rf b
    cp -r a b
    reseal b 's/  4  stem$/  04  stem/'
    run np-verify --fsck b
    [ "$status" -eq 1 ]
    grep 'damaged manifest: not a count of updates' <<< "$output"
}

@test "--fsck: a frozen stem has no updates" {
    np-train recipe.yaml --run a --set 'shared={policy: frozen}' --stop-after 4
    np-verify --fsck a
    object=$(sed -n '5s/ .*//p' a/checkpoints/*.manifest)
    reseal a "5i $object  4  stem"
    run np-verify --fsck a
    [ "$status" -eq 1 ]
    grep "damaged manifest: layer 'stem' has updates that no step made" <<< "$output"
}

@test "an old version that differs is found" {
    np-train recipe.yaml --run a --set 'shared={policy: delay, steps: 3}' --stop-after 4
    cp -r a b
    object=$(sed -n 's/ .* stem@-2$//p' b/checkpoints/*.manifest)
    reseal b "s/^[0-9a-f]*\(.* stem@-1\)$/$object\1/"
    run np-verify a b
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${lines[3]}" = "ledgers are the same" ]
    [ "${lines[4]}" = "first layer that differs after 4 steps: stem@-1" ]
    [[ "${lines[5]}" =~ ^"first element that differs: weights of " ]]
}

@test "layers that were kept from different steps on: the layer of the step that differs" {
    np-train recipe.yaml --run a --stop-after 3
    np-train recipe.yaml --run a --resume --ledger layers
    np-train recipe.yaml --run b --ledger layers
    np-verify a b
    fingerprint=$(sed -n 's/^3\thead\t//p' b/layers.tsv)
    [ -n "$fingerprint" ]
    sed -i "s/^3\thead\t.*/3\thead\t${fingerprint//[0-9]/7}/" b/layers.tsv
    fingerprint=$(sed -n 's/^3\t\([^\t]*\)\t\([^\t]*\)\t.*/\2/p' b/ledger.tsv)
    sed -i "s/^\(3\t[^\t]*\t\)[^\t]*/\1${fingerprint//[0-9]/7}/" b/ledger.tsv
    for pair in 'a b' 'b a'; do
        # shellcheck disable=SC2086 # two words
        run np-verify $pair
        echo "$output"
        [ "$status" -eq 1 ]
        [ "${lines[3]}" = "first step that differs: 3" ]
        [ "${lines[4]}" = "first layer of that step that differs: head" ]
    done
}

@test "usage errors" {
    np-train recipe.yaml --run a
    for args in "" "a" "a b c" "--fsck" "--fsck a b" "--fsck --expect $(digest_of a) a" "--expect x" \
        "--wat a b"; do
        # shellcheck disable=SC2086
        run np-verify $args
        echo "$args: $status $output"
        [ "$status" -eq 2 ]
        [[ "${lines[0]}" == "np-verify: "* && "${lines[0]}" != "np-verify: error: "* ]]
    done
}

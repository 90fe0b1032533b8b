#!/usr/bin/env bats
# np-evolve: the next subnets for an evolutionary search.

load common

setup() {
    fresh_directory
    tiny_recipe
}

# scores LOSS SUBNET...: np-evaluate's lines, of ascending losses from that one.
scores() {
    local loss=$1
    shift
    for subnet; do
        printf '%s\t0.5\t%s\n' "$loss" "$subnet"
        loss=$((loss + 1))
    done
}

@test "children of the best, each once, none that was scored; the same again" {
    np-evolve recipe.yaml > first
    [ "$(sort -u first | wc -l)" -eq 20 ]
    : > none
    gives first np-evolve recipe.yaml --scores none
    scores 1 '0 0 0 0' '1 1 1 1' '2 2 2 2' '3 3 3 3' > scores
    np-evolve recipe.yaml --scores scores --parents 2 --mutation 0 --population 14 > children
    ! grep -q '[23]' children || return 1 # with what two parents have
    [ "$(sort -u children | wc -l)" -eq 14 ]
    ! grep -qxF -e '0 0 0 0' -e '1 1 1 1' children || return 1
    two=(np-evolve recipe.yaml --parents 2 --mutation 0)
    gives children "${two[@]}" --scores - --population 14 < scores
    gives children "${two[@]}" --scores <(cat scores) --population 14
    { printf '# scored\n\n' && sed 's/$/\r/' scores; } > dressed
    gives children "${two[@]}" --scores dressed --population 14
    np-evolve recipe.yaml --scores scores --parents 2 --mutation 0 -o fewer 2> talk
    [ "$(wc -l < fewer)" -eq 14 ]
    [ "$(cat talk)" = 'np-evolve: 14 of 20 subnets: no others were found' ]
    "${two[@]}" --scores scores -s seed=8 > seeded
    cmp <(sort seeded) <(sort children)
    # fewer were scored than may be parents
    np-evolve recipe.yaml --scores scores --parents 4 > four
    gives four np-evolve recipe.yaml --scores scores
    # losses that are no number make no parents; accuracies may
    { printf 'nan\t0.9\t3 3 3 0\n' && cat scores; } > wrong
    "${two[@]}" --scores wrong --population 14 > unnumbered
    cmp <(sort unnumbered) <(sort children)
    np-evolve recipe.yaml --scores wrong --parents 1 --population 8 --by accuracy > others
    awk '($1 == 3) + ($2 == 3) + ($3 == 3) + ($4 == 0) >= 2 { near++ } END { exit near < 6 }' others
}

@test "a subnet that was scored again has its last score" {
    children() {
        np-evolve recipe.yaml --scores "$1" --parents 1 --mutation 0.1 --population 8
    }
    scores 1 '0 0 0 0' '1 1 1 1' '2 2 2 2' > scores
    { scores 1 '0 0 0 0' '1 1 1 1' && scores 0 '2 2 2 2'; } > better
    { cat scores && scores 0 '2 2 2 2'; } > again
    { scores 4 '0 0 0 0' && cat again; } > worse # of two scores the second
    [ "$(children scores | grep -o 0 | wc -l)" -gt 16 ]
    [ "$(children better | grep -o 2 | wc -l)" -gt 16 ]
    [ "$(children again | grep -o 2 | wc -l)" -gt 16 ]
    [ "$(children worse | grep -o 2 | wc -l)" -gt 16 ]
    scores nan '2 2 2 2' >> again
    [ "$(children again | grep -o 0 | wc -l)" -gt 16 ]
}

@test "interrupted while it waits for scores, it ends like other filters" {
    mkfifo scores
    np-evolve recipe.yaml --scores scores -o next &
    pid=$!
    exec 9> scores
    kill -s TERM $pid
    ends_with 143 wait $pid
    exec 9>&-
    [ ! -e next ]
}

@test "as many as there are, and no more" {
    np-evolve recipe.yaml --population 65536 > all 2> talk
    [ "$(sort -u all | wc -l)" -eq 256 ]
    [ "$(wc -l < all)" -eq 256 ]
    [ "$(cat talk)" = 'np-evolve: 256 of 65536 subnets: no others were found' ]
    awk '{ print "1\t0.5\t" $0 }' all > scores
    run np-evolve recipe.yaml --scores scores
    [ "$status" -eq 1 ]
    [ "$output" = 'np-evolve: error: no subnet that is within the limits, and not scored, was found' ]
}

# Operations of block 0's candidates ascend from 3, 2, 0 to 1, multiply-adds from 3, 2, 1 to 0; the
# rest is alike.
@test "the front of good scores and small subnets" {
    scores 1 '1 3 3 3' '1 2 3 3' '0 3 3 3' '2 3 3 3' '1 1 3 3' '3 3 3 3' '0 0 3 3' > scores
    parents() {
        np-evolve recipe.yaml --scores scores --mutation 0 --population 200 "$@" 2> /dev/null |
            sort > children
    }
    # no other is better and as small: of blocks 0 and 1 candidates of 1 3, 0 3, 2 3 and 3 3
    parents --pareto flops --parents 4
    [ -z "$(cut -d ' ' -f 2 children | grep -v 3)" ] || return 1
    # the second front is 1 2, the third 1 1 and 0 0
    parents --pareto flops --parents 5
    grep -q '^[0-3] 2' children
    ! grep -q '^[0-3] [01]' children || return 1
    parents --pareto flops --parents 6 # the first of it
    grep -q '^[0-3] 1' children
    ! grep -q '^[0-3] 0' children || return 1
    parents --pareto parameters --parents 7
    grep -q '^[0-3] 0' children
    # 0 3 is worse than 1 3 and takes more of these; after 1 3, 2 3 and 3 3 the next front has 1 2
    parents --pareto macs --parents 4
    printf '%s\n' '2 2 3 3' '3 2 3 3' | cmp - children
    # of a front that is too long, the ends
    scores 1 '1 2 3 3' '0 3 3 3' '2 3 3 3' '3 3 3 3' > scores
    parents --pareto flops --parents 2
    printf '%s\n' '1 3 3 3' '3 2 3 3' | cmp - children
    parents --parents 2
    printf '%s\n' '0 2 3 3' '1 3 3 3' | cmp - children
}

@test "limits" {
    np-evolve recipe.yaml --flops 180000 --population 40 > small
    np-evolve recipe.yaml --parameters 10k --population 40 > light
    np-evolve recipe.yaml --macs 0.08M --population 40 > few
    for limit in '4 180000 small' '1 10000 light' '10 80000 few'; do
        read -r column most file <<< "$limit"
        np-partition recipe.yaml --estimate --profile-from model -q --subnets "$file" |
            awk -F '\t' -v c="$column" -v most="$most" 'NR > 1 && $c > most { bad = 1 } END { exit bad || NR < 11 }'
    done
    run np-evolve recipe.yaml --flops 1
    [ "$status" -eq 1 ]
    [ "$output" = 'np-evolve: error: no subnet that is within the limits, and not scored, was found' ]
}

@test "widths, ties and depths stay what they are" {
    cat > deep.yaml <<< "$(sed '/^  blocks:/,/identity/d; /^train:/i\  blocks:\
    - {depth: [1, 2, 4], choices: [{op: ffn, ratio: 1}, {op: ffn, ratio: 2}]}\
    - {widths: [8, 16], tie_widths: t, depth: [1, 3], choices: [{op: conv1d, kernel: 2}]}\
    - {widths: [8, 16], tie_widths: t, choices: [{op: ffn}, {op: glu}]}\
    - {repeat: 2, tie: u, choices: [{op: mha, heads: 2}, {op: identity}]}' recipe.yaml)"
    np-evolve deep.yaml --population 30 > subnets
    for generation in 1 2 3; do
        np-partition deep.yaml --estimate --profile-from model -q --subnets subnets |
            awk -F '\t' -v OFS='\t' 'NR > 1 { print $1, 0, $NF }' >> scores # all are subnets
        [ "$(wc -l < scores)" -eq $((generation * 30)) ]
        np-evolve deep.yaml --scores scores --population 30 > subnets
    done
    [ "$(cut -f 3 scores | sort -u | wc -l)" -eq 90 ]
    cut -f 3 scores | awk '$9 != $10 { exit 1 }'
}

@test "what is refused" {
    scores 1 '0 0 0 0' '0 0 0 4' > bad
    refused 'bad:2: candidate 4 of block 3 is not in 0..3' np-evolve recipe.yaml --scores bad
    scores 1 '0 0 0' > bad
    refused 'bad:1: 3 candidates, not 4' np-evolve recipe.yaml --scores bad
    scores 1 '0 0 0 0 0' > bad
    refused 'bad:1: 5 candidates, not 4' np-evolve recipe.yaml --scores bad
    scores 1 '0 0 x 0' > bad
    refused 'bad:1: no candidate: x' np-evolve recipe.yaml --scores bad
    echo '1 2 0 0 0 0' > bad
    refused 'bad:1: no loss, accuracy and candidates with tabulators between them' \
        np-evolve recipe.yaml --scores bad
    scores x '0 0 0 0' > bad
    refused 'bad:1: no number: x' np-evolve recipe.yaml --scores bad
    mkdir directory
    refused "cannot read 'directory': Is a directory" np-evolve recipe.yaml --scores directory
    refused "cannot open 'none': No such file or directory" np-evolve recipe.yaml --scores none
    declined "unknown --by 'los' (did you mean 'loss'?)" np-evolve recipe.yaml --by los
    declined "--mutation must be a number from 0 to 1, not '2'" np-evolve recipe.yaml --mutation 2
    declined 'a recipe is needed' np-evolve
}

@test "examples/evolve: better in the end, within the limit, the same after a break" {
    unsanitized
    sed -i 's/steps: 6/steps: 100/' recipe.yaml
    np-train recipe.yaml --run a -q > digest
    evolve() {
        GENERATIONS=$1 "$NP_TREE/examples/evolve" recipe.yaml a "$2" --flops 180000 2> talk
    }
    evolve 1 scores > /dev/null
    evolve 3 scores > best
    [ "$(cat talk)" = "$(printf 'evolve: generation %d of 3\n' 2 3)" ]
    evolve 3 whole | cmp - best
    cmp scores whole
    EVALUATE='--batches 1 --threads 1' evolve 1 rough > /dev/null
    cut -f 3 rough | cmp - <(sed 20q scores | cut -f 3)
    ! cmp -s rough <(sed 20q scores) || return 1
    mkdir directory
    ! evolve 1 directory > /dev/null || return 1
    [ "$(cut -f 3 scores | sort -u | wc -l)" -eq 60 ]
    sort -g scores | sed 5q | cmp - best
    np-partition recipe.yaml --estimate --profile-from model -q > estimate
    awk -F '\t' 'NR == FNR { flops[$1, $2] = $7; next }
        { split($3, gene, " "); sum = flops["stem", 0] + flops["head", 0]
          for (i = 1; i <= 4; i++) sum += flops["block0" i - 1, gene[i]]
          loss[int((FNR - 1) / 20)] += $1; if (sum > 180000) exit 1 }
        END { exit !(loss[2] < loss[0]) }' estimate scores
}

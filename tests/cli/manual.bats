#!/usr/bin/env bats
# What the manuals and the README tell a reader to type is typed here.

load common

setup() {
    fresh_directory
    tiny_recipe
    export XDG_CACHE_HOME=$BATS_RUN_TMPDIR # measured once
    printf '0 1 2 3\n3 2 1 0\n' > subnets.txt
}

# The sh blocks of the README.
readme() {
    sed -n '/^```sh$/,/^```$/{/^```/!p}' "$NP_TREE/README.md"
}

@test "np-train(1)" {
    examples np-train.1
    [ -s timeline.svg ]
    [ "$(wc -l < losses.tsv)" -eq 2 ]
    [ -s made.digest ]
}

@test "np-partition(1)" {
    examples np-partition.1
}

@test "np-predict-trace(1)" {
    examples np-predict-trace.1
}

@test "np-evaluate(1)" {
    examples np-evaluate.1
    [ "$(wc -l < best)" -eq 3 ]
}

@test "np-export(1)" {
    examples np-export.1
    [ -s best.safetensors ]
}

@test "np-derive(1)" {
    examples np-derive.1
    [ "$(digest_of fresh)" != "$(digest_of tuned)" ]
}

@test "np-evolve(1)" {
    examples np-evolve.1
    [ "$(cut -f 3 first.tsv second.tsv | sort -u | wc -l)" -eq 40 ]
}

@test "np-verify(1)" {
    examples np-verify.1
}

@test "naspipe-run(5)" {
    examples naspipe-run.5
}

@test "naspipe(7)" {
    examples naspipe.7
}

@test "naspipe-plan(5): the example is a plan" {
    sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/p' "$NP_TREE/man/naspipe-plan.5" |
        sed -n '/^\.Bd/,/^\.Ed/{/^\./!p}' > example.yaml
    sed -i 's/repeat: 4/repeat: 6/' recipe.yaml
    digest=$(np-partition recipe.yaml -n 2 --profile-from model -q | sed -n 's/^recipe: //p')
    sed "s/^recipe: .*/recipe: $digest/" example.yaml > plan.yaml
    np-train recipe.yaml --run a --plan plan.yaml
}

@test "naspipe-recipe(5): the examples are recipes" {
    sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/p' "$NP_TREE/man/naspipe-recipe.5" |
        awk '/^\.Bd/ { inside = 1; n++; next } /^\.Ed/ { inside = 0 } inside { print > "example" n ".yaml" }'
    np-partition example1.yaml --profile-from model -n 2 -q > /dev/null
    np-partition example2.yaml --profile-from model -n 2 -q > /dev/null
    for part in example3.yaml example4.yaml; do
        { sed '/^  blocks:/q' example2.yaml; cat $part; sed -n '/^  head:/,$p' example2.yaml; } > all.yaml
        np-partition all.yaml --profile-from model -n 2 -q > /dev/null
    done
    [ ! -e example5.yaml ]
}

@test "naspipe-recipe(5): every key and word of a canonical recipe is in it, with its default" {
    sed -i '/^train:/,$d' recipe.yaml
    printf 'train:\n  steps: 6\n' >> recipe.yaml
    np-train recipe.yaml --run a --stop-after 1
    tr -c 'a-z0-9_/\n' ' ' < a/recipe.yaml | tr ' ' '\n' | grep -x '[a-z][a-z0-9_]*' | sort -u |
        grep -vxE 'corpus|txt|e' > words
    while read -r word; do
        grep -q "\\b$word\\b" "$NP_TREE/man/naspipe-recipe.5" || { echo "no '$word'"; exit 1; }
    done < words
    # what the manual says is the default is the default
    grep -q '^  batch: 16$' a/recipe.yaml
    grep -q '^  grain: 2$' a/recipe.yaml
    grep -q 'kind: adamw, lr: 0.001, beta1: 0.9, beta2: 0.999, eps: 1e-08, weight_decay: 0.01' a/recipe.yaml
    grep -q 'schedule: {kind: constant, warmup: 0}' a/recipe.yaml
    grep -q '^shared: {policy: delay, steps: 1}$' a/recipe.yaml
    grep -q '^sampler: {kind: uniform, members: 1}$' a/recipe.yaml
    grep -q 'checkpoint_every: 0' a/recipe.yaml
}

@test "naspipe-recipe(5), naspipe-numerics(7): every operator" {
    for recipe in tiny_recipe pairs_recipe image_recipe; do
        $recipe
        run np-partition recipe.yaml -s 'space.blocks=[{choices: [{op: none}]}]'
        [ "$status" -eq 2 ]
        sed -n "s/.*unknown op 'none' (known: \(.*\))$/\1/p" <<< "$output" | sed 's/, /\n/g'
    done | sort -u > operators
    [ "$(wc -l < operators)" -gt 20 ]
    while read -r op; do
        grep -qE "^\.It Cm $op( |$)" "$NP_TREE/man/naspipe-recipe.5" ||
            { echo "recipe: no '$op'"; return 1; }
        sed -n '/^\.Sh OPERATORS/,/^\.Sh /p' "$NP_TREE/man/naspipe-numerics.7" |
            grep -qE "^([a-z0-9_]+, )*$op(,| |$)" || { echo "numerics: no '$op'"; return 1; }
    done < operators
}

@test "naspipe-recipe(5): what does not change the digest" {
    np-train recipe.yaml --run a
    sed -e 's/^seed: 7/# a comment\nseed: 7/' -e 's/{op: mha, heads: 2}/{heads: 2, op: "mha"}/' \
        -e 's/batch: 4/batch: 4\n  grain: 1/' recipe.yaml > other.yaml
    np-train other.yaml --run b
    cmp a/recipe.yaml b/recipe.yaml
    np-verify a b
    cmp <(sha256sum < a/recipe.yaml | cut -c 1-64) <(sed -n 's/^recipe //p' a/checkpoints/*)
}

@test "README: the tour" {
    readme | grep -vE '^(make|apt-get) ' > tour.sh
    has_ranks || sed -i '/^mpirun /d' tour.sh
    [ "$(grep -c '^np-' tour.sh)" -ge 8 ]
    rm recipe.yaml corpus.txt
    ln -s "$NP_TREE/libcore" "$NP_TREE/examples" .
    sed -i 's/steps: 100/steps: 6/; s/steps=100/steps=6/; s/--random 50/--random 12/' tour.sh
    bash -e -o pipefail tour.sh > said
    cmp timeline.svg "$NP_TREE/examples/timeline.svg" # the picture is what the tool draws
    grep -q "^same: 6 and 6 steps$" said
    [ "$(wc -l < scores.tsv)" -eq 12 ]
    head -n 1 scores.tsv | cut -f 3 | np-derive recipe.yaml --subnet - | cmp - found.yaml
    [ "$(wc -l < tuned/ledger.tsv)" -ge 6 ]
}

@test "README: its make targets are there, and it needs nothing from elsewhere" {
    readme | sed -n 's/^make \([a-z ]*[a-z]\).*/\1/p' > targets
    [ "$(wc -l < targets)" -ge 2 ]
    for target in $(cat targets) bench install; do
        grep -q "^$target:" "$NP_TREE/Makefile"
    done
    lacks '\.\./' "$NP_TREE/README.md"
    grep -oE '\]\([a-z][^:)]*\)' "$NP_TREE/README.md" | tr -d '])(' > links
    while read -r link; do [ -e "$NP_TREE/$link" ]; done < links
    while read -r folder; do
        grep -q "^| \`$folder\`" "$NP_TREE/README.md"
    done < <(cd "$NP_TREE" && ls -d libcore/*)
}

@test "naspipe-numerics(7) has every constant of the elementary functions" {
    sed 's/\\-/-/g; s/\\(mi/-/g' "$NP_TREE/man/naspipe-numerics.7" > page
    grep -oE '0x1\.?[0-9a-f]*p[+-][0-9]+' "$NP_TREE/libcore/num/elementary.h" | sort -u > constants
    [ "$(wc -l < constants)" -gt 50 ]
    grep -vx '0x1p-100f*' constants | while read -r constant; do
        grep -qF "$constant" page || { echo "no $constant"; exit 1; }
    done
}

@test "every manual is well formed" {
    command -v mandoc > /dev/null || skip "no mandoc"
    for page in "$NP_TREE"/man/*.[157]; do mandoc -Tlint -Wwarning "$page"; done
}

@test "every manual is whole, as groff sets it" {
    command -v groff > /dev/null && [ -e /usr/share/groff/current/tmac/mdoc.tmac ] ||
        skip "no groff with mdoc"
    for page in "$NP_TREE"/man/*.[157]; do
        groff -mdoc -Tascii "$page" > set 2> talk
        lacks 'cannot\|automatically ending' talk
        tail -n 3 set | grep -q '20[0-9][0-9]' # the foot of the last page
    done
    for page in naspipe.7 np-predict-trace.1; do
        groff -mdoc -Tascii "$NP_TREE/man/$page" | grep -q 'S. Zhao and others'
    done
}

#!/usr/bin/env bats
# Bad input: one line that says where, exit 2, nothing lost and nothing half-written.

load common

setup() {
    fresh_directory
    tiny_recipe
    export XDG_CACHE_HOME=$BATS_RUN_TMPDIR # measured once
}

teardown() {
    [ -z "${mounted:-}" ] || umount "$mounted"
}

# bad SED-SCRIPT MESSAGE: the recipe changed so is refused.
bad() {
    sed "$1" recipe.yaml > bad.yaml
    cmp -s recipe.yaml bad.yaml && { echo "no change: $1"; return 1; }
    refused "$2" np-train bad.yaml --run r
    rm bad.yaml
}

@test "recipe: unknown and duplicate keys" {
    bad 's/^seed/sede/' "bad.yaml:2:1: unknown key 'sede' (did you mean 'seed'?)"
    bad 's/ratio: 2/ratoi: 2/' "bad.yaml:13:21: unknown key 'ratoi' (did you mean 'ratio'?)"
    bad 's/kernel: 3/heads: 2/' "bad.yaml:14:24: unknown key 'heads' (known: op, kernel, norm, dropout, drop_path)"
    bad '2p' "bad.yaml:3:1: duplicate key 'seed'"
    bad '/^  width/d' "bad.yaml:7:3: missing key 'width' in 'space'"
}

@test "recipe: wrong types and words" {
    bad 's/seed: 7/seed: x/' "bad.yaml:2:7: 'seed' must be a whole number from 0 to 2^64-1, not 'x'"
    bad 's/seed: 7/seed: -1/' "bad.yaml:2:7: 'seed' must be a whole number from 0 to 2^64-1, not '-1'"
    bad 's/width: 16/width: [16]/' "bad.yaml:8:10: 'width' must be a whole number from 1 to 65536, not a list"
    bad 's/op: mha/op: mah/' "bad.yaml:12:16: unknown op 'mah' (did you mean 'mha'?)"
    bad 's/recipe.1/recipe\/2/' "bad.yaml:1:10: this is 'recipe/2', not 'recipe/1'"
    bad 's/0[.]1}/1.0}/' "bad.yaml:13:40: 'dropout' must be a number in [0, 1), not '1.0'"
    bad 's/batch: 4/batch: 4.5/' "bad.yaml:18:10: 'batch' must be a whole number from 1 to 1048576, not '4.5'"
}

@test "recipe: heads that do not divide the width, a kernel of 0, a grain" {
    bad 's/heads: 2/heads: 3/' "bad.yaml:12:28: 'heads' must divide the width of 16, not 3"
    bad 's/kernel: 3/kernel: 0/' "bad.yaml:14:32: 'kernel' must be a whole number from 1 to 256, not '0'"
    bad 's/repeat: 4/repeat: 0/' "bad.yaml:10:15: 'repeat' must be a whole number from 1 to 4096, not '0'"
    bad 's/batch: 4/batch: 4\n  grain: 3/' "bad.yaml:19:10: 'grain' must divide the batch of 4, not 3"
}

@test "recipe: what YAML must not do" {
    bad 's/seed: 7/seed: \&a 7/' "bad.yaml:2:7: anchors are not allowed"
    bad 's/seed: 7/seed: !!int 7/' "bad.yaml:2:7: tags are not allowed"
    bad '$s/$/\n---\nb: 1/' "bad.yaml:19:1: a second document is not allowed"
    refused "cannot open 'none.yaml': No such file or directory" np-train none.yaml --run r
    : > empty.yaml
    refused "empty.yaml:1:1: the document is empty" np-train empty.yaml --run r
}

@test "data: empty, short and missing files" {
    : > empty.txt
    bad 's/corpus/empty/' "'./empty.txt' has no tokens"
    echo short > short.txt
    bad 's/corpus/short/' "'./short.txt': 5 tokens in the part, a sample needs 9"
    bad 's/corpus/none/' "cannot open './none.txt': No such file or directory"
    mkdir folder.txt
    bad 's/corpus/folder/' "'./folder.txt' is not a regular file"
}

@test "stream: wrong counts, indices out of range, other characters" {
    printf '0 1 2 3\n0 1 2\n' > s
    refused "s:2: 3 indices, not 4" np-train recipe.yaml --run r --subnets s
    printf '0 1 2 3\n# x\n0 1 2 3 0\n' > s
    refused "s:3: 5 indices, not 4" np-train recipe.yaml --run r --subnets s
    printf '0 1 4 3\n' > s
    refused "s:1:5: candidate 4 of block 2 is not in 0..3" np-train recipe.yaml --run r --subnets s
    printf '0 1 -1 3\n' > s
    refused "s:1:5: unexpected '-'" np-train recipe.yaml --run r --subnets s
    printf '0 1 2 3\n0 1 99999999999999999999 3\n' > s
    refused "s:2:5: candidate 2147483647 of block 2 is not in 0..3" np-train recipe.yaml --run r --subnets s
    printf '0 1 2 3\n0 1 2 3\n0 1 2 3\n' > s
    refused "s:4: the file ends inside step 1, after 1 of 2 members" \
        np-train recipe.yaml --run r --subnets s --set 'sampler={members: 2}'
    refused "cannot open 'none': No such file or directory" np-train recipe.yaml --run r --subnets none
}

@test "a bad line of a pipe: the steps before it are kept" {
    for schedule in csp sequential; do
        run bash -c "printf '0 1 2 3\n1 1 1 1\nx\n' |
            np-train recipe.yaml --run $schedule --subnets - --schedule $schedule"
        [ "$status" -eq 2 ]
        [ "$output" = "np-train: error: <stdin>:3:1: unexpected 'x'" ]
        np-verify --fsck $schedule
        printf '0 1 2 3\n1 1 1 1\n' > s
        np-train recipe.yaml --run good-$schedule --subnets s
        np-verify $schedule good-$schedule
    done
}

@test "plan: another recipe's, a bad one, a missing one" {
    np-partition recipe.yaml -n 2 --profile-from model -o plan.yaml
    other=$(np-partition recipe.yaml --set seed=8 -n 2 --profile-from model | sed -n 's/^recipe: \(.\{8\}\).*/\1/p')
    own=$(sed -n 's/^recipe: \(.\{8\}\).*/\1/p' plan.yaml)
    refused "plan.yaml:2:9: this plan was made for recipe $own..., not $other..." \
        np-train recipe.yaml --run r --plan plan.yaml --set seed=8
    sed 's/^micro_batches: .*/micro_batches: 3/' plan.yaml > bad.yaml
    refused "bad.yaml:3:16: micro-batches must divide 4, the grains of a mini-batch (batch 4, grain 1), and 3 does not" \
        np-train recipe.yaml --run r --plan bad.yaml
    sed 's/^window: .*/window: 65536/; s/^lookahead: .*/lookahead: 16/' plan.yaml > bad.yaml
    refused "bad.yaml:$(grep -n '^window:' bad.yaml | cut -d: -f1):9: 'window' and 'lookahead' are 65552 steps together: 65536 are the most" \
        np-train recipe.yaml --run r --plan bad.yaml
    sed 's/^window:/windows:/' plan.yaml > bad.yaml
    refused "bad.yaml:1:1: missing key 'window' (there is a key 'windows')" \
        np-train recipe.yaml --run r --plan bad.yaml
    refused "cannot open 'none': No such file or directory" np-train recipe.yaml --run r --plan none
}

@test "plan: more stages than there are positions, micro-batches off the grains" {
    refused "9 stages are too many: 'recipe.yaml' has 6 positions" np-train recipe.yaml --run r --stages 9
    refused "micro-batches must divide 4, the grains of a mini-batch (batch 4, grain 1), and 3 does not" \
        np-train recipe.yaml --run r --micro-batches 3
}

@test "run directory: it exists, its parent does not, it is none" {
    mkdir r
    touch r/notes
    refused "'r' exists; --resume continues a run" np-train recipe.yaml --run r
    refused "cannot create 'none/r': No such file or directory" np-train recipe.yaml --run none/r
    refused "cannot list 'r/checkpoints': No such file or directory" np-train recipe.yaml --run r --resume
    mkdir r/checkpoints r/objects
    refused "'r' holds no checkpoint to resume from" np-train recipe.yaml --run r --resume
}

@test "trace: where it cannot be written, nothing is trained" {
    mkdir folder
    ln -s none link
    refused "cannot write 'folder': Is a directory" np-train recipe.yaml --run r --trace folder
    refused "cannot create 'none/t.svg': No such file or directory" \
        np-train recipe.yaml --run r --trace none/t.svg
    np-train recipe.yaml --run r --trace link
    [ -f link ]
}

@test "resume: another recipe, other data" {
    np-train recipe.yaml --run r --stop-after 2
    cp -r r before
    refused "r/checkpoints/0000000002.manifest: the run was made with another recipe: it has 'seed: 7', not 'seed: 8'" \
        np-train recipe.yaml --run r --resume --set seed=8
    refused "r/checkpoints/0000000002.manifest: the run was made with another recipe: it has 'checkpoint_every: 0', not 'checkpoint_every: 5'" \
        np-train recipe.yaml --run r --resume --set train.checkpoint_every=5
    echo more >> corpus.txt
    refused "r/checkpoints/0000000002.manifest: the run was made with other training data" \
        np-train recipe.yaml --run r --resume
    diff -r r before
}

@test "standard output that cannot be written: said once, the run is kept" {
    run bash -c 'np-train recipe.yaml --run r > /dev/full'
    [ "$status" -eq 2 ]
    [ "$output" = "np-train: error: cannot write standard output: No space left on device" ]
    np-train recipe.yaml --run whole
    np-verify r whole
    run bash -c 'np-train recipe.yaml --run s --losses - > /dev/full'
    [ "$status" -eq 2 ]
    [ "$output" = "np-train: error: cannot write losses to '<stdout>': No space left on device" ]
    np-train recipe.yaml --run s --resume
    np-verify s whole
    for command in "np-verify r whole" "np-verify --json r whole" "np-verify --fsck r" \
        "np-train --version" "np-train --help"; do
        run bash -c "$command > /dev/full"
        echo "$command: $output"
        [ "$status" -eq 2 ]
    done
}

@test "a reader of losses that goes away: exit 2, the run is kept" {
    mkfifo losses
    (read -r _ < losses) &
    run np-train recipe.yaml --run r --set train.steps=20000 --losses losses
    wait $!
    [ "$status" -eq 2 ]
    [ "$output" = "np-train: error: cannot write losses to 'losses': Broken pipe" ]
    np-verify --fsck r
}

# Trains in DIR until its disk is full, then checks what is left: nothing but whole checkpoints.
fill_disk() {
    cp recipe.yaml corpus.txt "$1"
    run np-train "$1/recipe.yaml" --run "$1/r" --set train.steps=100000 --set train.checkpoint_every=2
    echo "$output"
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "${lines[0]}" == "np-train: error: cannot "*": $2" ]]
    np-verify --fsck "$1/r"
    cp -r "$1/r" kept # with room again, it goes on
    steps=$(($(wc -l < kept/ledger.tsv) + 3))
    np-train recipe.yaml --run kept --resume --set train.steps=100000 --set train.checkpoint_every=2 \
        --stop-after $steps
    np-train recipe.yaml --run whole --set train.steps=100000 --set train.checkpoint_every=2 \
        --stop-after $steps
    cmp kept/ledger.tsv whole/ledger.tsv
    [ "$(digest_of kept)" = "$(digest_of whole)" ]
}

@test "a full disk: the last checkpoint is whole" {
    mkdir disk
    mount -t tmpfs -o size=600k none disk 2> /dev/null || skip "cannot mount a small tmpfs here"
    mounted=$PWD/disk
    fill_disk disk "No space left on device"
}

@test "a file size limit: the last checkpoint is whole" {
    mkdir disk
    (
        trap '' XFSZ
        ulimit -S -f 60 # KiB
        cp recipe.yaml corpus.txt disk
        code=0
        np-train disk/recipe.yaml --run disk/r --set train.steps=100000 \
            --set train.checkpoint_every=100 2> talk || code=$?
        cat talk
        [ "$code" -eq 2 ]
        [ "$(wc -l < talk)" -eq 1 ]
        grep -q '^np-train: error: cannot .*: File too large$' talk
    )
    [ "$(find disk/r/checkpoints -type f | wc -l)" -ge 1 ]
    np-verify --fsck disk/r
}

# A checkpoint with one file damaged by COMMAND is refused by --resume and found by --fsck.
damaged() {
    local message=$1 code=0
    shift
    rm -rf broken
    cp -r good broken
    "$@"
    cp -r broken before
    refused "$message" np-train recipe.yaml --run broken --resume
    diff -r broken before
    rm -rf before
    np-verify --fsck broken > out 2> talk || code=$?
    cat out talk
    [ "$code" -eq 1 ]
    grep -q '^damaged: ' out
    grep -qF "np-verify: $message" talk
}

@test "--fsck names every object that is missing, and sees those beside what cannot be listed" {
    np-train recipe.yaml --run good --stop-after 3
    listed=good/checkpoints/0000000003.manifest
    for line in 5 6; do
        name=$(sed -n "${line}s/ .*//p" $listed)
        rm -f "good/objects/${name:0:2}/${name:2}"
        echo "object 'good/objects/${name:0:2}/${name:2}' is missing" >> gone
    done
    code=0
    np-verify --fsck good > out 2> talk || code=$?
    [ "$code" -eq 1 ]
    while read -r message; do grep -F "$message" talk; done < gone
    rm -r good
    np-train recipe.yaml --run good --stop-after 3
    chmod -R u+w good/objects
    first=good/objects/$(ls good/objects | head -n 1)
    rm -r "$first"
    touch "$first"
    run np-verify --fsck good
    [ "$status" -eq 1 ]
    [[ $output == *"cannot list '$first': Not a directory"* ]]
    grep -F "object '$first/" <<< "$output"
    [ "$(grep 'is missing' <<< "$output" | grep -cvF "object '$first/")" -eq 0 ]
}

@test "damaged objects: truncated, grown, bits flipped, gone, another's" {
    np-train recipe.yaml --run good --stop-after 3
    name=$(sed -n '5s/ .*//p' good/checkpoints/0000000003.manifest)
    other=$(sed -n '6s/ .*//p' good/checkpoints/0000000003.manifest)
    object=broken/objects/${name:0:2}/${name:2}
    chmod u+w good/objects/*/*
    damaged "object '$object' is damaged: it ends early" truncate -s -1 "$object"
    damaged "object '$object' is damaged: it does not begin as a zstd frame" truncate -s 0 "$object"
    damaged "object '$object' is missing" rm "$object"
    damaged "object '$object' is damaged: bytes follow its end" sh -c "echo x >> $object"
    damaged "object '$object' is damaged: it does not begin as a zstd frame" flip "$object" 0
    damaged "object '$object' is missing" mv "$object" "$object.old"
    cp_other() { cp "broken/objects/${other:0:2}/${other:2}" "$object"; }
    rm -rf broken
    cp -r good broken
    cp_other
    code=0
    np-train recipe.yaml --run broken --resume 2> talk || code=$?
    [ "$code" -eq 2 ]
    [ "$(wc -l < talk)" -eq 1 ]
    grep -q "object '$object'" talk
    # a bit flipped anywhere in the content
    size=$(stat -c %s "good/objects/${name:0:2}/${name:2}")
    for offset in $((size / 3)) $((size / 2)) $((size - 1)); do
        rm -rf broken
        cp -r good broken
        flip "$object" $offset
        code=0
        np-train recipe.yaml --run broken --resume 2> talk || code=$?
        cat talk
        [ "$code" -eq 2 ]
        [ "$(wc -l < talk)" -eq 1 ]
        grep -q "^np-train: error: object '$object' is damaged: " talk
        run np-verify --fsck broken
        [ "$status" -eq 1 ]
    done
}

# Edits the manifest $m and sums it up anew.
forged() {
    sed -i "$1" $m
    { sed '$d' $m; printf 'end %s\n' "$(sed '$d' $m | sha256sum | cut -c 1-64)"; } > m.new
    mv m.new $m
}

@test "damaged manifests: truncated, bits flipped, reordered, escaping the directory" {
    np-train recipe.yaml --run good --stop-after 3
    m=broken/checkpoints/0000000003.manifest
    cut="$m: damaged manifest: its last line is not there"
    changed="$m: damaged manifest: not what its last line sums up"
    damaged "$cut" truncate -s -1 $m
    damaged "$cut" truncate -s 0 $m
    damaged "$cut" truncate -s 300 $m
    damaged "$cut" sed -i '$d' $m
    damaged "$cut" sh -c "echo >> $m"
    damaged "$changed" flip $m 0
    damaged "$changed" flip $m 200
    damaged "$cut" flip $m -1
    damaged "$changed" flip $m -2
    damaged "$changed" sed -i 's/^step 3/step 2/' $m
    damaged "$changed" sed -i 's/  1  block/  2  block/' $m
    damaged "$changed" sed -i '6d' $m
    # whoever can sum up can forge, but not leave the directory or break the reader
    damaged "$m:1: damaged manifest: 'naspipe' expected" forged '1s/^n/m/'
    damaged "$m:1: damaged manifest: 'manifest/1' expected" forged '1s/1$/2/'
    damaged "$m:4: damaged manifest: step 2" forged 's/^step 3/step 2/'
    damaged "$m:6: damaged manifest: names are not in order" forged '5{h;d};6{G}'
    damaged "$m: damaged manifest: a NUL byte" forged '5s/$/\x00x/'
    damaged "$m:5: damaged manifest: not a layer's name" forged '5s,  block,  ../block,'
    damaged "$m:5: damaged manifest: not a digest" forged '5s,^.,g,'
    damaged "$m:5: damaged manifest: not a digest" forged '5s,^../,../,;5s,^.,/,'
    damaged "$m:5: damaged manifest: not a count of updates" forged '5s,  1  ,  x  ,;5s,  2  ,  x  ,;5s,  3  ,  x  ,'
    damaged "$m: the recipe has no layer 'nose'" forged '5,$s,  head$,  nose,'
}

@test "manifests that no run can have written" {
    sed -i '/identity/d' recipe.yaml
    cat >> recipe.yaml <<'YAML'
shared: {policy: delay, steps: 3}
YAML
    np-train recipe.yaml --run good --stop-after 3
    m=broken/checkpoints/0000000003.manifest
    name=$(sed -n '5s/.*  //p' "good/${m#*/}")
    it="$m: damaged manifest: layer"
    damaged "$it 'stem' has updates that no step made" forged 's/  3  stem$/  2  stem/'
    damaged "$it 'head' has updates that no step made" forged 's/  1  head@-2$/  2  head@-2/'
    damaged "$it '$name' has updates that no step made" forged '5s/  [0-9]*  block/  4  block/'
    damaged "$it 'head' has not all its versions" forged '/  head$/d'
    damaged "$it 'stem' has not all its versions" forged '/  stem@-1$/d'
    damaged "$it '${name%choice*}choice00' and its block lack updates" forged '5d'
    damaged "$m: the recipe has no layer 'stem@-3'" forged 's/@-2$/@-3/;/head@-3/d'
    damaged "$m:6: damaged manifest: names are not in order" forged 5p

    rm -rf broken
    cp -r good broken
    forged "5s/^[0-9a-f]*/$(sed -n 's/ .*  stem$//p' $m)/" # an object of another layer's size
    run np-verify --fsck broken
    [ "$status" -eq 1 ]
    [[ "${lines[0]}" == "np-verify: object 'broken/objects/"*"' has not the size of layer '$name' of $m" ]]
    run np-train recipe.yaml --run broken --resume
    [ "$status" -eq 2 ]
    [[ "$output" == *"' holds "*" bytes, not "* ]]
}

# damaged_ledger FILE SED-SCRIPT MESSAGE: it is found and not continued.
damaged_ledger() {
    rm -rf broken
    cp -r good broken
    sed -i "$2" "broken/$1"
    cmp -s "good/$1" "broken/$1" && { echo "no change: $2"; return 1; }
    run np-verify --fsck broken
    echo "$output"
    [ "$status" -eq 1 ]
    [ "${lines[0]}" = "np-verify: broken/$1:$3" ]
    refused "broken/$1:$3" np-train recipe.yaml --run broken --resume
}

@test "damaged ledger: cut short, a step missing, a line changed by hand" {
    np-train recipe.yaml --run good --stop-after 3
    damaged_ledger ledger.tsv '3d' "3: damaged ledger: step 2 expected"
    damaged_ledger ledger.tsv '2d' "2: damaged ledger: step 1 expected"
    damaged_ledger ledger.tsv '2s/^1/01/' "2: damaged ledger: step 1 expected"
    for change in 's/[0-9]$/x/' 's/[0-9]$//' 's/$/ /' 's/\t[^\t]*$//' 's/p-/p+/' \
        's/\t0x[^\t]*/\t0x1p-4/' 's/\(.*\t\)0x[^\t]*/\10x1p+1/'; do
        damaged_ledger ledger.tsv "2$change" "2: damaged ledger: not a line of step 1"
    done
}

@test "damaged ledger of layers: nothing but other lines" {
    np-train recipe.yaml --run good --stop-after 3 --ledger layers
    damaged_ledger layers.tsv 's/^/x/' "1: damaged ledger: not a layer's line"
    damaged_ledger layers.tsv '/^2/s/^/x/' "$(grep -n -m 1 '^2' good/layers.tsv | cut -d : -f 1)$(
        echo ": damaged ledger: not a layer's line")"
}

@test "a run's files are not waited for" {
    np-train recipe.yaml --run good --stop-after 1
    cp good/recipe.yaml aside
    for file in recipe.yaml products.txt; do
        rm -f good/$file
        mkfifo good/$file
        run timeout 20 np-verify --fsck good
        [ "$status" -eq 1 ]
        [[ "$output" == *"'good/$file' is not a regular file"* ]]
        [ $file = products.txt ] || # whose numerics keep none
            refused "'good/$file' is not a regular file" np-train recipe.yaml --run good --resume
        [ $file = products.txt ] ||
            refused "'good/$file' is not a regular file" np-train recipe.yaml --run new --init good
        timeout 20 np-evaluate recipe.yaml --run good --random 1 -q
        rm good/$file
        cp aside good/recipe.yaml
    done
}

@test "damaged ledger of layers: a line changed or missing" {
    np-train recipe.yaml --run good --stop-after 2 --ledger layers
    np-train recipe.yaml --run good --stop-after 3 --resume # of this step there are none
    np-train recipe.yaml --run good --stop-after 5 --resume --ledger layers
    np-verify --fsck good
    last=$(grep -n -m 1 '^4' good/layers.tsv)
    last=${last%%:*}
    sum="damaged ledger: the layers of step"
    damaged_ledger layers.tsv '1s/.$/x/' "1: damaged ledger: not a layer's line"
    damaged_ledger layers.tsv '1d' "1: $sum 0 do not add up to the step"
    damaged_ledger layers.tsv '$d' "$last: $sum 4 do not add up to the step"
    damaged_ledger layers.tsv "${last}s/stem\|head\|block/nose/" \
        "$last: damaged ledger: not a layer's line"
    damaged_ledger layers.tsv "${last}s/^4/2/" "$last: damaged ledger: not a layer's line"
    sed -i '$s/$/\n5\tst/' good/layers.tsv # what a run leaves that ends after its checkpoint
    np-verify --fsck good
    np-train recipe.yaml --run good --resume
    np-verify --fsck good
    [ "$(tail -n 1 good/layers.tsv | cut -f 1)" = 4 ]
}

@test "a learning rate of 1e9: exit 1, names step, subnet and layer, keeps the last checkpoint" {
    for optimizer in '{lr: 1.0e9}' '{kind: sgd, lr: 1.0e9}'; do
        for schedule in '--schedule sequential' '--stages 3'; do
            rm -rf r
            # shellcheck disable=SC2086 # two words
            run np-train recipe.yaml --run r -q $schedule --set train.steps=200 \
                --set train.optimizer="$optimizer" --set train.checkpoint_every=1
            echo "$output"
            [ "$status" -eq 1 ]
            [[ "$output" =~ ^"np-train: error: step "[0-9]+", member 0, subnet '"[0-3\ ]+"': the "(output|loss|gradient|update)" of layer '"[a-z0-9.]+"' is not finite"$ ]]
            np-verify --fsck r
        done
    done
}

@test "a fault is the same however it is run" {
    for run in '--schedule sequential --isa scalar' '--stages 2' '--stages 6 --micro-batches 4 --window 6'; do
        # shellcheck disable=SC2086
        np-train recipe.yaml --run "r$((++n))" -q --set train.steps=200 $run \
            --set train.optimizer='{kind: sgd, lr: 1.0e9}' 2> "said$n" || code=$?
        [ "$code" -eq 1 ]
        code=0
    done
    grep -q 'is not finite$' said1
    run np-train recipe.yaml --run v -v --stages 2 --set train.optimizer='{kind: sgd, lr: 1.0e9}'
    [ "$status" -eq 1 ]
    [[ "$output" == *" $(wc -l < v/ledger.tsv) steps in "* ]]
    cmp said1 said2
    cmp said1 said3
}

@test "finite losses of rows that add up to one that is not" {
    cat > recipe.yaml <<'YAML'
naspipe: recipe/1
seed: 5
data: {train: {kind: bytes, files: [corpus.txt]}}
space:
  input: {kind: tokens, vocab: 256, length: 6}
  width: 8
  blocks:
    - {repeat: 2, choices: [{op: ffn, ratio: 2}]}
train: {steps: 3, batch: 4, grain: 2, optimizer: {kind: sgd, lr: 1.0e+10}}
YAML
    seq 1 1000 > corpus.txt
    for run in '--schedule sequential' '--stages 1' '--stages 2 -M 2 -W 3' '--replicas 2 -M 2'; do
        rm -rf r
        # shellcheck disable=SC2086
        run np-train recipe.yaml --run r -q $run
        [ "$status" -eq 1 ]
        [ "$output" = "np-train: error: step 2, member 0, subnet '0 0': the loss of layer 'head' is \
not finite" ]
        [ "$(cut -f 1 r/ledger.tsv | tr '\n' ' ')" = '0 1 ' ]
        np-verify --fsck r
    done
}

@test "a fault while the next subnet is awaited" {
    mkfifo subnets
    np-train recipe.yaml --run r -q --subnets - --losses losses --stages 2 --window 6 \
        --set train.optimizer='{kind: sgd, lr: 1.0e9}' < subnets > out 2> said &
    pid=$!
    exec 9> subnets
    printf '0 1 2 0\n0 1 0 1\n3 1 0 1\n0 1 0 1\n' >&9
    code=0
    wait $pid || code=$? # step 3 fails, and its loss is not waited for
    exec 9>&-
    cat said
    [ "$code" -eq 1 ]
    [ "$(cat said)" = "np-train: error: step 3, member 0, subnet '0 1 0 1': the output of layer 'head' \
is not finite" ]
    [ "$(cut -f 1 losses | tr '\n' ' ')" = '0 1 2 ' ]
    [ "$(cut -f 1 r/ledger.tsv | tr '\n' ' ')" = '0 1 2 ' ]
}

@test "no output is written over the recipe's data" {
    ln -s corpus.txt link
    for option in --losses --trace "--device-memory 1MiB --stash"; do
        # shellcheck disable=SC2086
        run np-train recipe.yaml --run r $option link
        [ "$status" -eq 2 ]
        [[ "$output" == *"'link' would overwrite data: "*corpus.txt* ]]
    done
    run np-partition recipe.yaml --profile-from model -o corpus.txt
    [ "$status" -eq 2 ]
    run np-predict-trace recipe.yaml -o corpus.txt
    [ "$status" -eq 2 ]
    [ -s corpus.txt ]
    [ ! -e r ]
}

@test "a plan has no options of plans beside it" {
    for option in "--replicas 2" "--stages 2" "--threads 2" "--cut balanced" "--reach 2" "--stash-bandwidth 1MiB"; do
        # shellcheck disable=SC2086
        run np-train recipe.yaml --run r --plan p $option
        [ "$status" -eq 2 ]
        [[ "${lines[0]}" == "np-train: --plan already says"* ]]
    done
}

@test "usage errors: exit 2, nothing made" {
    for args in "recipe.yaml" "--run r" "recipe.yaml --run r --wat" "recipe.yaml --run r --isa avx3" \
        "recipe.yaml --run r --schedule gpipe" "recipe.yaml --run r --stages 0" \
        "recipe.yaml --run r --stages 1x" "recipe.yaml --run r --window 99999999999999999999" \
        "recipe.yaml --run r --stages 2 --schedule sequential" "recipe.yaml other.yaml --run r" \
        "recipe.yaml --run r --plan p --schedule sequential" \
        "recipe.yaml --run r --inject-delays 3 --schedule sequential" \
        "recipe.yaml --run r --trace t --schedule sequential" \
        "recipe.yaml --run r --unit 2 --schedule sequential" \
        "recipe.yaml --run r --deadline 3" "recipe.yaml --run r --transport peer" \
        "recipe.yaml --run r --plan p --window 2" \
        "recipe.yaml --run r --plan - --subnets -" "- --run r --subnets -" "- --run r --plan -" \
        "recipe.yaml --run r --plan p --stages 2" "recipe.yaml --run r --stash-bandwidth 1MiB" \
        "recipe.yaml --run r --stop-after 0" "recipe.yaml --run"; do
        # shellcheck disable=SC2086
        run np-train $args < /dev/null
        echo "$args: $status $output"
        [ "$status" -eq 2 ]
        [[ "${lines[0]}" == "np-train: "* && "${lines[0]}" != "np-train: error: "* ]]
        [ ! -e r ]
    done
}

@test "distill takes members that have the same batch" {
    for sampler in '{members: 2}' '{batch: same}' '{kind: sandwich, batch: own}'; do
        run np-train recipe.yaml --run r --set "sampler=$sampler" --set 'train.loss={distill: 0.5}'
        [ "$status" -eq 2 ]
        [[ "${lines[0]}" = *"'distill' is of steps whose members have the same batch: "* ]]
    done
    [ ! -e r ]
    np-train recipe.yaml --run r --stop-after 1 --set 'sampler={members: 2, batch: same}' \
        --set 'train.loss={distill: 0.5}'
}

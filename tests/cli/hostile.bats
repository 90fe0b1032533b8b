# What a hostile user, a second process and a dying machine do to the tools.
load common

setup() {
    fresh_directory
    tiny_recipe
}

@test "killed at any moment: resumed to the same digest" {
    set=(--set train.steps=40 --set train.checkpoint_every=3 --ledger layers)
    np-train recipe.yaml --run whole "${set[@]}"
    for after in $(some '1 2 4 9 16 23' '2 9'); do
        mkfifo losses
        rm -rf killed
        np-train recipe.yaml --run killed "${set[@]}" --losses losses > out 2> talk &
        pid=$!
        exec 9< losses
        for ((i = 0; i < after; i++)); do read -r -u 9 _; done
        kill -s KILL $pid
        wait $pid || true
        exec 9<&-
        rm losses
        np-verify --fsck killed # the last lines of its ledger may be cut off
        touch killed/.np-7-1 killed/objects/.np-7-2 killed/checkpoints/.np-7-3
        np-train recipe.yaml --run killed "${set[@]}" --resume --stages 3 --stop-after $((after + 5))
        np-train recipe.yaml --run killed "${set[@]}" --resume
        np-verify whole killed
        np-verify --fsck killed
        [ -z "$(find killed -name '.np-*')" ] # what was being written
        cmp whole/layers.tsv killed/layers.tsv
    done
}

@test "ended before its first checkpoint: begins again, with its own recipe only" {
    np-train recipe.yaml --run whole
    cp -r whole begun
    rm begun/checkpoints/*
    refused "begun/recipe.yaml: the run was made with another recipe: it has 'seed: 7', not 'seed: 8'" \
        np-train recipe.yaml --run begun --resume --set seed=8
    np-train recipe.yaml --run begun --resume
    np-verify whole begun
    cmp whole/ledger.tsv begun/ledger.tsv
}

@test "killed while its directory was made: begins again, with any of its parts" {
    np-train recipe.yaml --run whole
    mkdir cut
    for part in '' objects checkpoints .np-7-0 recipe.yaml; do
        case $part in
        objects | checkpoints) mkdir "cut/$part" ;;
        .np-7-0) echo cut > "cut/$part" ;;
        recipe.yaml) cp whole/recipe.yaml cut ;;
        esac
        rm -rf begun
        cp -r cut begun
        np-train recipe.yaml --run begun --resume
        np-verify whole begun
        np-verify --fsck begun
        jq -e .tool begun/run.json
    done
    refused "cut/recipe.yaml: the run was made with another recipe: it has 'seed: 7', not 'seed: 8'" \
        np-train recipe.yaml --run cut --resume --set seed=8
    mkdir other && touch other/thesis.tex
    refused "cannot list 'other/checkpoints': No such file or directory" \
        np-train recipe.yaml --run other --resume
    [ "$(ls other)" = thesis.tex ]
}

@test "a run directory has one process at a time" {
    mkfifo subnets
    np-train recipe.yaml --run r --subnets - --losses losses < subnets > out 2> talk &
    pid=$!
    exec 9> subnets
    printf '0 1 2 3\n' >&9
    until [ -s losses ]; do kill -0 $pid; done
    refused "'r' is in use by another process" np-train recipe.yaml --run r --resume
    run np-verify --fsck r # reading is not in its way
    [ "$status" -le 1 ]
    exec 9>&-
    wait $pid
    echo 0 1 2 3 | np-train recipe.yaml --run r --resume --subnets -
}

@test "a run that cannot begin leaves no directory" {
    (ulimit -v 2000000 && np-train --version > /dev/null 2>&1) || skip "no memory limit here"
    ulimit -v 2000000
    run np-train recipe.yaml --run r --set space.input.vocab=16777216 --stages 1
    [ "$status" -eq 2 ]
    [[ "$output" == "np-train: error: cannot allocate "* ]]
    [ ! -e r ]
}

@test "a directory that may be written but not read takes runs and plans" {
    other_user np-train --version > /dev/null || skip 'not root, or another user cannot come here'
    chmod a+rx .
    mkdir -m 1733 drop
    cd drop
    run other_user cat .
    [ "$status" -ne 0 ]
    other_user np-train ../recipe.yaml --run run -q --trace trace.json > digest
    other_user np-partition ../recipe.yaml --profile-from model -q -o plan.yaml
    np-train ../recipe.yaml --run expected -q
    np-verify expected run
    [ -s trace.json ]
    [ -s plan.yaml ]
}

@test "names with control characters: one line, and nothing for the terminal" {
    name=$'a\n\e[2Jb'
    np-train recipe.yaml --run "$name" > out
    [ "$(wc -l < out)" -eq 1 ]
    [[ "$(cat out)" == \\* ]]
    run np-train recipe.yaml --run "$name"
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    lacks $'\e' <(printf '%s' "$output")
    printf 'damage' > "$name/ledger.tsv"
    run np-train recipe.yaml --run "$name/none"$'\t'"/x" --resume
    [ "${#lines[@]}" -eq 1 ]
}

@test "a host name that is not UTF-8: JSON all the same" {
    other_host() {
        unshare --uts sh -c 'printf "a\377b" > /proc/sys/kernel/hostname && exec "$@"' - "$@"
    }
    other_host true || skip "cannot have another host name"
    other_host np-train recipe.yaml --run r --stop-after 1 -q
    jq -e '.host == "a\\xffb"' r/run.json
}

@test "a run name that is not UTF-8: JSON all the same" {
    name=$'r\xe9'
    np-train recipe.yaml --run "$name"
    np-verify --json "$name" "$name" | jq -e .same
    np-verify --json --fsck "$name" | jq -e '.run == "r\\xe9"'
}

@test "layer names of a damaged ledger are escaped" {
    np-train recipe.yaml --run a --ledger layers
    cp -r a b
    sed -i '1s/\t/\t\x1b[2J/' b/layers.tsv
    sed -i '1s/0x/1x/' b/ledger.tsv
    run np-verify b a
    [ "$status" -eq 1 ]
    lacks $'\e' <(printf '%s' "$output")
    [[ "$output" == *'\x1b[2J'* ]]
}

@test "a ledger that differs behind a NUL byte differs" {
    np-train recipe.yaml --run a
    cp -r a b
    sed -i '2s/$/\x00x/' a/ledger.tsv
    sed -i '2s/$/\x00y/' b/ledger.tsv
    run np-verify a b
    [ "$status" -eq 1 ]
    [[ "$output" == *"first step that differs: 1"* ]]
}

@test "closed standard streams: nothing is written into other files" {
    np-train recipe.yaml --run a
    for close in '<&-' '>&-' '2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
        rm -rf b
        code=0 want=0
        [[ $close == '>&-'* || $close == *' >&-'* ]] && want=2
        bash -c "np-train recipe.yaml --run b --losses - --stages 2 $close" > /dev/null 2>&1 || code=$?
        echo "$close: $code, not $want"
        [ "$code" -eq "$want" ]
        np-train recipe.yaml --run b --resume
        cmp a/ledger.tsv b/ledger.tsv
        np-verify a b
        jq -e .tool b/run.json
    done
}

@test "stacks that are small, or larger than all memory" {
    [ "$(ulimit -H -s)" = unlimited ] || skip 'a limit is set here'
    np-train recipe.yaml --run a
    for size in 64 $((1 << 30)); do # KiB
        rm -rf b
        (
            ulimit -S -s "$size"
            np-train recipe.yaml --run b --stages 2 --threads 2
            np-evaluate recipe.yaml --run b --random 2 > /dev/null
        )
        same a b
    done
}

@test "output into a pipe, a device, a link: it stays what it is" {
    np-partition recipe.yaml --profile-from model > want
    mkfifo pipe
    cat pipe > got &
    np-partition recipe.yaml --profile-from model -o pipe
    wait $!
    [ -p pipe ]
    cmp want got
    np-partition recipe.yaml --profile-from model -o >(cat > got; : > ended)
    until [ -e ended ]; do :; done
    cmp want got
    np-partition recipe.yaml --profile-from model -o /dev/stdout | cmp want
    mkdir far
    echo old > far/plan.yaml
    ln -s far/plan.yaml link
    np-partition recipe.yaml --profile-from model -o link
    [ -L link ]
    cmp want far/plan.yaml
    ln -s far/new.yaml new # leads to nothing yet
    np-partition recipe.yaml --profile-from model -o new
    [ -L new ]
    cmp want far/new.yaml
    ln -s no/where nowhere
    refused "cannot create 'nowhere': No such file or directory" \
        np-partition recipe.yaml --profile-from model -o nowhere
    [ -L nowhere ]
    cat pipe > got &
    np-train recipe.yaml --run r --trace pipe
    wait $!
    jq -e .traceEvents got > /dev/null
    mknod full c 1 7 2> /dev/null && : < full || skip "cannot make a device here"
    refused "cannot write 'full': No space left on device" \
        np-predict-trace recipe.yaml -o full
    [ -c full ]
}

@test "data cut short under a run: exit 2, the last checkpoint stands" {
    cp corpus.txt corpus.whole
    mkfifo losses
    np-train recipe.yaml --run r --set train.steps=100000 --set train.checkpoint_every=2 \
        --losses losses > out 2> talk &
    pid=$!
    exec 9< losses
    for _ in 1 2 3 4 5; do read -r -u 9 _; done
    : > corpus.txt
    cat <&9 > /dev/null
    exec 9<&-
    code=0
    wait $pid || code=$?
    cat talk
    [ "$code" -eq 2 ]
    [ "$(cat talk)" = "np-train: error: a data file was cut short while it was read" ]
    cp corpus.whole corpus.txt
    np-verify --fsck r
    np-train recipe.yaml --run r --set train.steps=100000 --set train.checkpoint_every=2 --resume \
        --stop-after $(($(wc -l < r/ledger.tsv) + 4)) > /dev/null
    np-verify --fsck r
}

@test "data cut short while it is first read" {
    truncate -s 4G corpus.txt
    timeout -s KILL 60 np-train recipe.yaml --run r > out 2> talk &
    job=$!
    until grep -qs corpus.txt "/proc/$(pgrep -P $job)/maps"; do kill -0 $job; done
    truncate -s 1000 corpus.txt
    code=0
    wait $job || code=$?
    [ "$code" -eq 2 ]
    [ "$(cat talk)" = "np-train: error: a data file was cut short while it was read" ]
    [ ! -e r ]
}

@test "a stream that ends at once, or breaks in its first line" {
    printf '0 1 2' > short
    printf '0 1 2 3' > whole # no newline
    refused "short:1: 3 indices, not 4" np-train recipe.yaml --run r --subnets short
    np-train recipe.yaml --run r --subnets whole
    [ "$(wc -l < r/ledger.tsv)" -eq 1 ]
    run bash -c "np-train recipe.yaml --run s --subnets - < <(cat short)"
    [ "$output" = "np-train: error: <stdin>:1: 3 indices, not 4" ]
    np-verify --fsck s
    run bash -c "np-train recipe.yaml --run t --subnets - < <(printf '0 1 2 3\n0 1 \0002 3\n')"
    [ "$output" = "np-train: error: <stdin>:2:5: unexpected '\\x00'" ]
    [ "$(wc -l < t/ledger.tsv)" -eq 1 ]
}

@test "a trace with a hole is refused, not simulated to its end" {
    np-train recipe.yaml --run r --stages 2 --trace trace.json
    sed '0,/"step":5/s/"step":5/"step":900000000000000/' trace.json > r/trace.json
    refused "the trace of 'r' misses steps between 0 and 900000000000000" \
        np-predict-trace recipe.yaml --stages 2 --against r
}

@test "what is asked of a plan is done, not searched for" {
    np-partition recipe.yaml --profile-from model --set train.batch=256 --set train.grain=1 \
        --micro-batches 256 --stages 2 > plan.yaml
    grep -qx 'micro_batches: 256' plan.yaml
    np-partition recipe.yaml --profile-from model --window 4096 --stages 2 > plan.yaml
    grep -qx 'window: 4096' plan.yaml
    np-train recipe.yaml --run a --plan plan.yaml
    np-train recipe.yaml --run b
    np-verify a b
}

@test "a plan with more threads than a team may have" {
    np-partition recipe.yaml --profile-from model --stages 2 > plan.yaml
    sed -i 's/^threads:.*/threads: 257/' plan.yaml
    refused "plan.yaml:7:10: 'threads' must be a whole number from 1 to 256, not '257'" \
        np-train recipe.yaml --run r --plan plan.yaml
}

@test "an evaluation can be interrupted, and uses no more threads than a team may have" {
    mkfifo losses
    np-train recipe.yaml --run r --stages 4 --threads 65 --eval-every 1 --eval-batches 1000000 \
        --eval-subnets 1000000 --losses losses > out 2> talk &
    pid=$!
    exec 9< losses
    read -r -u 9 _
    kill -s TERM $pid
    cat <&9 > /dev/null
    exec 9<&-
    code=0
    wait $pid || code=$?
    cat talk
    [ "$code" -eq 75 ]
    np-verify --fsck r
    np-train recipe.yaml --run r --resume --stages 4 --threads 65 --eval-every 6 --eval-batches 1 \
        --eval-subnets 1
}

@test "run directories with pipes, devices and endless lines in them" {
    np-train recipe.yaml --run a --stop-after 3 --ledger layers
    m=checkpoints/0000000003.manifest
    for part in ledger.tsv layers.tsv $m; do
        rm -rf b
        cp -r a b
        rm b/$part
        mkfifo b/$part
        refused "'b/$part' is not a regular file" np-train recipe.yaml --run b --resume --ledger layers
        rm b/$part
        ln -s /dev/zero b/$part
        refused "'b/$part' is not a regular file" np-train recipe.yaml --run b --resume --ledger layers
        [ $part = layers.tsv ] || np-verify --fsck b > out 2> talk || [ $? -eq 1 ]
    done
    rm -rf b
    cp -r a b
    truncate -s 40G b/ledger.tsv b/layers.tsv # a hole without a newline
    np-verify --fsck b           # it is behind the checkpoint
    np-train recipe.yaml --run b --resume
    np-train recipe.yaml --run c
    np-verify b c
}

@test "a thousand members and 64 micro-batches: planned all the same" {
    unsanitized
    np-partition recipe.yaml --profile-from model --set train.batch=64 --set train.grain=1 --stages 2 \
        --micro-batches 64 --set 'sampler={kind: uniform, members: 1024}' > plan.yaml
    grep -q '^stages:$' plan.yaml
}

# spared MESSAGE COMMAND...: a usage error that says so.
spared() {
    run "${@:2}"
    echo "$output"
    [ "$status" -eq 2 ]
    [ "${lines[0]}" = "$2: $1" ]
}

@test "what is read is not written over" {
    np-partition recipe.yaml --profile-from model --stages 2 > plan.yaml
    cp recipe.yaml kept.yaml
    cp plan.yaml kept-plan.yaml
    ln recipe.yaml other.yaml
    spared "--output './recipe.yaml' would overwrite 'recipe.yaml'" \
        np-partition recipe.yaml -o ./recipe.yaml
    spared "--output 'plan.yaml' would overwrite 'plan.yaml'" \
        np-predict-trace recipe.yaml --plan plan.yaml -o plan.yaml
    for option in losses trace stash; do
        spared "--$option 'other.yaml' would overwrite 'recipe.yaml'" \
            np-train recipe.yaml --run r --$option other.yaml
    done
    cmp recipe.yaml kept.yaml
    cmp plan.yaml kept-plan.yaml
    [ ! -e r ]
}

@test "a copy of hard links goes on alone" {
    np-train recipe.yaml --run a -q --stop-after 3 --ledger layers > digest
    cp -al a b
    cp -r a kept
    np-train recipe.yaml --run b -q --resume --ledger layers > digest
    diff -r a kept
    np-train recipe.yaml --run a -q --resume --stop-after 5
    np-verify --fsck a
    np-train recipe.yaml --run a -q --resume
    np-verify a b
}

@test "what a run keeps is not written over" {
    np-train recipe.yaml --run r --stop-after 2 -q > digest
    ln -s r/ledger.tsv link
    ln -s r/layers.tsv dangling # which only --ledger layers would make
    ln -s dangling twice
    cp -r r kept
    objects=(r/objects/*/*)
    for path in r/ledger.tsv r/layers.tsv ./r//run.json link dangling twice r/objects/new \
        r/checkpoints/x "${objects[0]}"; do
        for option in losses trace stash; do
            spared "error: --$option '$path' would overwrite what the run keeps there" \
                np-train recipe.yaml --run r --resume --$option $path
        done
        spared "error: --output '$path' would overwrite what the run keeps there" \
            np-export recipe.yaml --run r -o $path
    done
    (cd r && spared "error: --losses 'metrics.jsonl' would overwrite what the run keeps there" \
        np-train ../recipe.yaml --run . --resume --losses metrics.jsonl)
    cd "${objects[0]%/*}"
    for path in new ./new "$PWD/new"; do
        spared "error: --losses '$path' would overwrite what the run keeps there" \
            np-train ../../../recipe.yaml --run ../.. --resume --losses "$path"
    done
    cd ../../..
    diff -r r kept
    np-train recipe.yaml --run r --resume --losses r/losses.tsv # which it does not
    [ "$(wc -l < r/losses.tsv)" -eq 4 ]
}

# /proc/self/mem is a regular file of which nothing can be read from its beginning on.
@test "a ledger that cannot be read is said to be that, not the same, other or damaged" {
    tiny_recipe
    printf '0 1 2 3\n%.0s' 1 2 3 4 5 6 > subnets
    np-train recipe.yaml --run a -q --ledger layers --subnets subnets > digest
    cp -r a b
    for file in ledger.tsv layers.tsv subnets.txt; do
        mv a/$file sound
        ln -s /proc/self/mem a/$file
        run np-verify --fsck a
        [ "$status" -eq 1 ]
        said "np-verify: cannot read 'a/$file': Input/output error"
        run np-train recipe.yaml --run a -q --resume --subnets subnets
        [ "$status" -eq 2 ]
        said "np-train: error: cannot read 'a/$file': Input/output error"
        mv sound a/$file
    done
    for run in a b; do
        mv $run/ledger.tsv $run/sound
        ln -s /proc/self/mem $run/ledger.tsv
        run np-verify a b
        [ "$status" -eq 2 ]
        said "np-verify: error: cannot read '$run/ledger.tsv': Input/output error"
        mv $run/sound $run/ledger.tsv
    done
    np-verify a b
}

@test "a recipe that is too large to be kept is not trained" {
    unsanitized
    tiny_recipe
    sed -n '/^train:/,$p' recipe.yaml > train.yaml
    {
        sed '/^  blocks:/,$d' recipe.yaml
        printf '  blocks:\n  - repeat: 25\n    blocks:\n'
        for act in relu gelu; do
            echo '    - choices:'
            seq -f "      - {op: ffn, hidden: %.0f, act: $act}" 4000
        done
        cat train.yaml
    } > large.yaml
    run np-train large.yaml --run a -q
    [ "$status" -eq 2 ]
    [[ $output == 'np-train: error: large.yaml: too large, with every default written out: '* ]]
    [[ $output == *': recipe.yaml:'*': too many values in one document' ]] ||
        { echo "$output"; return 1; }
    [ ! -e a ]
    np-train large.yaml --run a -q -s space.blocks.0.repeat=4 -s train.steps=1
    np-verify --fsck a
}

@test "metrics that cannot be written are not lost without a word" {
    tiny_recipe
    np-train recipe.yaml --run a -q --stop-after 2 > digest
    mv a/metrics.jsonl .
    ln -s /dev/full a/metrics.jsonl
    run np-train recipe.yaml --run a -q --resume
    [ "$status" -eq 2 ]
    [[ "$output" = *"cannot write 'a/metrics.jsonl': No space left on device"* ]]
    mv metrics.jsonl a/metrics.jsonl
    np-verify --fsck a
    np-train recipe.yaml --run a -q --resume
}

@test "a cost cache that cannot be read is not written over" {
    tiny_recipe
    mkdir naspipe
    ln -s /proc/self/mem naspipe/profile.tsv
    np-partition recipe.yaml -n 2 -q > plan
    [ -L naspipe/profile.tsv ]
}

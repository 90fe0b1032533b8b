#!/usr/bin/env bats
# np-train: runs that stop or are stopped, their checkpoints, and what goes on with them.

load common

setup() {
    fresh_directory
    tiny_recipe
    export XDG_CACHE_HOME=$BATS_RUN_TMPDIR # measured once
}

# checkpoints RUN: their steps.
checkpoints() {
    find "$1/checkpoints" -name '*.manifest' -printf '%f\n' | sed 's/^0*//; s/.manifest//' | sort -n |
        xargs
}

@test "--keep: the latest checkpoints, whole, and nothing else" {
    sed -i 's/^  steps: .*/  steps: 9\n  checkpoint_every: 2/' recipe.yaml
    np-train recipe.yaml --run all -q
    [ "$(checkpoints all)" = '2 4 6 8 9' ]
    np-train recipe.yaml --run two --keep 2 -q --stages 2
    [ "$(checkpoints two)" = '8 9' ]
    np-verify --fsck two > sound
    cmp all/checkpoints/0000000008.manifest two/checkpoints/0000000008.manifest
    cmp all/ledger.tsv two/ledger.tsv
    # just the objects that the two name
    cat two/checkpoints/* | sed -n 's/^\([0-9a-f]\{64\}\)  .*/\1/p' | sort -u > named
    (cd two/objects && find . -type f | tr -d './' | sort) | cmp - named
    [ "$(find all/objects -type f | wc -l)" -gt "$(wc -l < named)" ]
    # of a run that is continued also older ones; what a stop writes is one
    np-train recipe.yaml --run one -q --stop-after 5
    [ "$(checkpoints one)" = '2 4 5' ]
    np-train recipe.yaml --run one -q --resume --stop-after 7 --keep 1
    [ "$(checkpoints one)" = '7' ]
    np-verify --fsck one > sound
    np-train recipe.yaml --run one -q --resume --keep 100
    [ "$(checkpoints one)" = '7 8 9' ]
    same all one
    # a run that is done is made smaller; what is no object stays
    touch one/objects/note
    np-train recipe.yaml --run one -q --resume --keep 1
    [ "$(checkpoints one)" = '9' ]
    [ "$(find one/objects -type f | wc -l)" -eq \
        "$(($(grep -c '  [0-9]*  ' one/checkpoints/0000000009.manifest) + 1))" ]
    np-verify all one
    # what an earlier time was kept from removing goes the next time
    cp -r all half
    rm half/checkpoints/*[246].manifest
    np-train recipe.yaml --run half -q --resume --keep 2
    [ "$(checkpoints half)" = '8 9' ]
    (cd half/objects && find . -type f | tr -d './' | sort) | cmp - named
    run np-train recipe.yaml --run x --keep 0
    [ "$status" -eq 2 ]
    said "np-train: --keep must be a whole number from 1 to 9223372036854775807, not '0'"
}

@test "--keep: a file with another name is no checkpoint" {
    np-train recipe.yaml --run a
    name=$(basename a/checkpoints/*.manifest)
    cp "a/checkpoints/$name" "a/checkpoints/0$name"
    np-train recipe.yaml --run a --resume --keep 1
    [ -e "a/checkpoints/$name" ]
    np-verify --fsck a
}

@test "--keep removes nothing where it is not known what is needed" {
    sed -i 's/^  steps: .*/  steps: 6\n  checkpoint_every: 2/' recipe.yaml
    np-train recipe.yaml --run a -q --stop-after 5
    flip a/checkpoints/0000000005.manifest 200
    cp -r a b
    rm b/checkpoints/0000000005.manifest
    np-train recipe.yaml --run b -q --resume --stop-after 5
    flip b/checkpoints/0000000004.manifest 200
    find b/objects -type f | sort > before
    run np-train recipe.yaml --run b -q --resume --keep 3
    [ "$status" -eq 2 ]
    said "np-train: error: b/checkpoints/0000000004.manifest: damaged manifest: not what its last line sums up"
    [ "$(checkpoints b)" = '2 4 5 6' ]
    find b/objects -type f | sort > after
    [ "$(comm -23 before after | wc -l)" -eq 0 ]
    np-train recipe.yaml --run b -q --resume --keep 4 # removes none
    find b/objects -type f | sort | cmp - after
    rm b/checkpoints/0000000004.manifest
    np-train recipe.yaml --run b -q --resume --keep 2
    np-verify --fsck b > sound
}

@test "stopped and resumed under other plans" {
    np-train recipe.yaml --run a
    np-train recipe.yaml --run b --stages 2 --stop-after 2 > out
    [ "$(cat out)" = "$(digest_of b)  b" ]
    np-train recipe.yaml --run b --resume --schedule sequential --isa scalar --stop-after 3
    np-train recipe.yaml --run b --resume --stages 3 --micro-batches 2
    same a b
    # a finished run has nothing left to do
    np-train recipe.yaml --run b --resume > out
    [ "$(cat out)" = "$(digest_of a)  b" ]
    same a b
}

@test "checkpoints on the way do not change the end" {
    np-train recipe.yaml --run a
    np-train recipe.yaml --run b --set train.checkpoint_every=2
    cmp a/ledger.tsv b/ledger.tsv
    [ "$(ls b/checkpoints)" = "$(printf '%010d.manifest\n' 2 4 6)" ]
    # the recipe is another, the layers are not
    cmp <(sed '1,4d;$d' a/checkpoints/0000000006.manifest) \
        <(sed '1,4d;$d' b/checkpoints/0000000006.manifest)
}

@test "interrupted: a clean checkpoint, exit 75, resumable" {
    for signal in $(some "INT TERM USR1 USR2 HUP XCPU" "INT XCPU"); do
        for schedule in csp sequential; do
            dir=$signal-$schedule
            mkfifo "$dir.losses"
            # nohup(1) may be above us
            env --default-signal=HUP np-train recipe.yaml --run "$dir" --schedule $schedule \
                --set train.steps=100000 --losses "$dir.losses" > "$dir.out" 2> "$dir.talk" &
            pid=$!
            exec 9< "$dir.losses"
            read -r -u 9 _ # it is training now
            kill -s $signal $pid
            cat <&9 > /dev/null
            exec 9<&-
            code=0
            wait $pid || code=$?
            [ "$code" -eq 75 ]
            grep -q '^np-train: stopped on request after step [0-9]*, by SIG'"$signal; continue with --resume$" \
                "$dir.talk"
            [ "$(cat "$dir.out")" = "$(digest_of "$dir")  $dir" ]
            done=$(wc -l < "$dir/ledger.tsv")
            np-train recipe.yaml --run "$dir" --set train.steps=100000 --resume --stop-after $((done + 2))
            np-train recipe.yaml --run "$dir-whole" --set train.steps=100000 --stop-after $((done + 2))
            same "$dir" "$dir-whole"
        done
    done
}

@test "a run that has done nothing yet can be resumed" {
    : | np-train recipe.yaml --run a --subnets -
    [ -e a/checkpoints/0000000000.manifest ]
    [ ! -s a/ledger.tsv ]
    np-train recipe.yaml --run a --resume --ledger layers
    np-train recipe.yaml --run b
    same a b
}

@test "interrupted while it waits for a pipe" {
    mkfifo subnets
    for schedule in csp sequential; do
        np-train recipe.yaml --run $schedule --schedule $schedule --subnets - --losses losses \
            < subnets > out 2> talk &
        pid=$!
        exec 9> subnets
        printf '0 1 2 3\n' >&9
        until [ -s losses ]; do kill -0 $pid; done
        kill -s INT $pid
        code=0
        wait $pid || code=$?
        exec 9>&-
        [ "$code" -eq 75 ]
        [ "$(wc -l < $schedule/ledger.tsv)" -eq 1 ]
        [ "$(cut -d ' ' -f 1 out)" = "$(digest_of $schedule)" ]
        rm losses
    done
}

@test "interrupted while it steps over what a stream repeats: the digest is the checkpoint's" {
    printf '%s\n' '0 1 2 3' '3 2 1 0' > two
    np-train recipe.yaml --run a --subnets two
    mkfifo subnets
    np-train recipe.yaml --run a --resume --subnets subnets > out 2> talk &
    pid=$!
    exec 9> subnets # it is open now
    printf '0 1 2 3\n' >&9
    kill -s TERM $pid
    code=0
    wait $pid || code=$?
    exec 9>&-
    [ "$code" -eq 75 ]
    [ "$(cat out)" = "$(digest_of a)  a" ]
    [ "$(cat talk)" = "np-train: stopped on request while waiting for 'subnets', by SIGTERM; continue with --resume" ]
}

@test "two signals at once are one request, as timeout(1) sends them" {
    mkfifo losses
    np-train recipe.yaml --run a --set train.steps=100000 --losses losses -q 2> talk &
    pid=$!
    exec 9< losses
    read -r -u 9 _
    kill -s TERM $pid
    kill -s INT $pid # two of a kind may merge
    cat <&9 > /dev/null
    exec 9<&-
    code=0
    wait $pid || code=$?
    [ "$code" -eq 75 ]
}

@test "an interrupt, later than the first, ends it at once; a container's first process, too" {
    first='unshare -pf --kill-child'
    $first true 2> /dev/null || { first= && echo '# not tried as a first process: no unshare' >&3; }
    mkfifo trace # which nobody reads: it waits for that at its end
    for before in '' ${first:+"$first"}; do
        rm -rf a
        # shellcheck disable=SC2086 # words
        timeout -s KILL 60 $before np-train recipe.yaml --run a --stages 2 --trace trace -q \
            > out 2> talk &
        job=$!
        until [ -e a/checkpoints/0000000006.manifest ]; do kill -0 $job; done
        pid=$job # or the first that has no children
        while child=$(pgrep -P "$pid"); do pid=$child; done
        for signal in TERM USR1 TERM USR1 TERM INT; do # an interrupt alone does
            kill -0 "$pid"
            kill -s $signal "$pid"
            sleep 0.3
        done
        code=0
        wait $job || code=$?
        [ "$code" -eq 130 ]
    done
}

@test "objects that lie on another disk, behind a symbolic link" {
    tiny_recipe
    np-train recipe.yaml --run whole -q
    np-train recipe.yaml --run a -q --stop-after 3
    mkdir far
    mv a/objects far
    ln -s "$PWD/far/objects" a/objects
    np-train recipe.yaml --run a -q --resume --keep 1
    [ -L a/objects ]
    np-verify --fsck a
    same whole a
}

@test "a layer that has not changed is not written again" {
    printf '%s\n' '1 1 1 1' '1 1 1 1' '0 0 0 0' '0 0 0 0' > subnets
    np-train recipe.yaml --run a --set train.checkpoint_every=1 --subnets subnets --stop-after 2
    name=$(sed -n 's/ .*  block00.choice01$//p' a/checkpoints/0000000002.manifest)
    before=$(stat -c %i "a/objects/${name:0:2}/${name:2}")
    np-train recipe.yaml --run a --set train.checkpoint_every=1 --subnets subnets --resume
    [ "$(stat -c %i "a/objects/${name:0:2}/${name:2}")" = "$before" ]
}

@test "what older steps read is written once, also by one that goes on" {
    local step=0 resume=()
    mkfifo subnets
    exec 9<> subnets
    for until in 3 6; do
        np-train recipe.yaml --run a -q --set 'shared={policy: delay, steps: 4}' \
            --set train.checkpoint_every=1 --subnets subnets --stop-after $until \
            "${resume[@]}" > out &
        pid=$!
        for _ in 1 2 3; do
            ((++step))
            printf '0 1 2 3\n' >&9
            until [ -e a/checkpoints/000000000$step.manifest ]; do
                kill -0 $pid
                sleep 0.02
            done
            find a/objects -type f -printf '%i %f\n' | sort > now
            [ $step -eq 1 ] || [ "$(comm -23 before now | wc -l)" -eq 0 ]
            mv now before
        done
        wait $pid
        resume=(--resume)
        printf '0 1 2 3\n%.0s' 1 2 3 >&9 # those that it passes over
    done
    exec 9>&-
    grep -q 'stem@-3' a/checkpoints/0000000006.manifest
}

@test "an evaluation that is due and was not made is made up for" {
    np-train recipe.yaml --run a --stop-after 4
    for _ in 1 2; do
        np-train recipe.yaml --run a --resume --eval-every 2 --eval-subnets 2 --eval-batches 1
        [ "$(jq -c 'select(.valid_loss) | .step' a/metrics.jsonl | tr '\n' ' ')" = "4 6 " ]
    done
    np-train recipe.yaml --run b
    same a b
}

@test "losses that were there stay if nothing is trained for want of a run" {
    np-train recipe.yaml --run a --losses losses --stop-after 4
    cp losses before
    run np-train recipe.yaml --run a --losses losses
    [ "$status" -eq 2 ]
    cmp losses before
}

@test "a run that goes on keeps the losses of the steps before" {
    unsanitized
    np-train recipe.yaml --run whole --losses whole.losses
    np-train recipe.yaml --run a --losses losses --stop-after 2
    cp losses begun
    np-train recipe.yaml --run a --losses losses --stop-after 4 --resume
    printf '4\t1.5\n5\t' >> losses # of a session that was killed
    np-train recipe.yaml --run a --losses losses --resume
    cmp losses whole.losses
    np-train recipe.yaml --run a --losses losses --resume # nothing is left to train
    cmp losses whole.losses
    cp begun gap
    sed -n 4p whole.losses >> gap
    echo "step 4" >> gap
    np-train recipe.yaml --run b --stop-after 4
    np-train recipe.yaml --run b --losses gap --resume
    [ "$(cut -f 1 gap | tr '\n' ' ')" = "0 1 3 4 5 " ]
    np-train recipe.yaml --run c --losses losses # a new one has its own alone
    cmp losses whole.losses
    np-train recipe.yaml --run d --stop-after 4
    tac whole.losses > losses # no run's
    np-train recipe.yaml --run d --losses losses --resume
    [ "$(cut -f 1 losses | tr '\n' ' ')" = "4 5 " ]
}

@test "a run whose recipe.yaml was lost or damaged has it again" {
    np-train recipe.yaml --run a --stop-after 3
    cp a/recipe.yaml whole
    rm a/recipe.yaml
    np-train recipe.yaml --run a --resume --stop-after 4
    cmp a/recipe.yaml whole
    echo '# more' >> a/recipe.yaml
    np-train recipe.yaml --run a --resume
    cmp a/recipe.yaml whole
    np-verify --fsck a
}

@test "what a killed run left unfinished in metrics.jsonl is cut" {
    np-train recipe.yaml --run a --stop-after 3
    printf '{"step":3,"ti' >> a/metrics.jsonl
    np-train recipe.yaml --run a --resume
    jq -e -s 'map(.step) == [0, 1, 2, 3, 4, 5]' a/metrics.jsonl
}

# notified SIGNAL OPTION...: run a gets the signal before it has its recipe, and ends with 75.
notified() {
    local stopped=0
    rm -f recipe.fifo
    mkfifo recipe.fifo
    np-train recipe.fifo --run a -q "${@:2}" > digest 2> talk &
    pid=$!
    exec 9> recipe.fifo # it reads
    kill -s "$1" $pid
    cat recipe.yaml >&9
    exec 9>&-
    wait $pid || stopped=$?
    [ "$stopped" -eq 75 ]
}

@test "notice that comes before the run: it begins, stops and can be resumed" {
    for signal in USR1 USR2 XCPU; do
        rm -rf a
        notified $signal
        [ "$(cat talk)" = \
            "np-train: stopped on request after step 0, by SIG$signal; continue with --resume" ]
        [ "$(cat digest)" = "$(digest_of a)  a" ]
    done
    # what goes on does not wait for its data to be read
    notified USR1 --resume
    [ "$(cat talk)" = \
        "np-train: stopped while './corpus.txt' was read, by SIGUSR1; continue with --resume" ]
    [ ! -s digest ]
    np-train recipe.yaml --run a --resume -q > digest
    np-train recipe.yaml --run b -q | cut -c 1-64 | cmp - <(cut -c 1-64 digest)
    # nothing has begun, nothing is left
    mkfifo another
    np-train another --run c &
    pid=$!
    exec 9> another
    kill -s TERM $pid
    stopped=0
    wait $pid || stopped=$?
    exec 9>&-
    [ "$stopped" -eq 143 ]
    [ ! -e c ]
}

@test "a hang-up that is ignored, as nohup(1) has it, does not stop a run" {
    mkfifo subnets
    (trap '' HUP && exec np-train recipe.yaml --run a --subnets - --losses losses -q) < subnets &
    pid=$!
    exec 9> subnets
    printf '0 1 2 3\n' >&9
    until [ -s losses ]; do kill -0 $pid; sleep 0.05; done
    kill -s HUP $pid
    printf '3 2 1 0\n' >&9
    exec 9>&-
    wait $pid
    [ "$(wc -l < a/ledger.tsv)" -eq 2 ]
}

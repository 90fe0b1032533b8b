#!/usr/bin/env bats
# Images, cells and pairs through all tools: the same promise, other shapes and units.

load common

setup() {
    fresh_directory
}

@test "images: every plan gives the reference's bits" {
    image_recipe
    np-train recipe.yaml --run a --schedule sequential
    np-train recipe.yaml --run b -n 3 -W 4 --isa scalar
    np-train recipe.yaml --run c -n 2 --threads 2 --unit 2 --inject-delays 3
    np-partition recipe.yaml -n 4 | np-train recipe.yaml --run d --plan - --stop-after 3
    np-train recipe.yaml --run d --resume -n 1
    same a b
    same a c
    same a d
}

@test "pairs: every plan gives the reference's bits" {
    pairs_recipe
    np-train recipe.yaml --run a --schedule sequential
    np-train recipe.yaml --run b -n 4 -M 4 -W 4 --isa scalar
    np-train recipe.yaml --run c -n 2 --threads 2 -M 2 --inject-delays 3
    np-partition recipe.yaml -n 3 -M 2 | np-train recipe.yaml --run d --plan - --stop-after 3
    np-train recipe.yaml --run d --resume -n 1
    same a b
    same a c
    same a d
}

# Of three blocks the last two may be passed over: identities, which a stream can choose as well.
@test "depth: every plan gives the reference's bits, those of identities that are written" {
    tiny_recipe
    layers='choices: [{op: mha, heads: 4}, {op: ffn, ratio: 2}'
    deep="space.blocks=[{depth: [1, 2, 3], $layers]}]"
    np-train recipe.yaml --run a -q --schedule sequential -s "$deep"
    np-train recipe.yaml --run b -q -n 3 -M 4 -W 4 -s "$deep"
    np-train recipe.yaml --run c -q -n 2 --threads 2 --inject-delays 3 -s "$deep"
    same a b
    same a c
    np-evaluate recipe.yaml --run a -q --random 10 --batches 1 -s "$deep" | cut -f 3 > drawn
    np-train recipe.yaml --run d -q --subnets drawn -s "$deep"
    np-train recipe.yaml --run e -q --subnets drawn -n 2 -s \
        "space.blocks=[{$layers]}, {repeat: 2, $layers, {op: identity}]}]"
    [ "$(cut -d ' ' -f 2- drawn | sort -u | wc -l)" -gt 3 ]
    grep -q ' 2$' drawn
    cmp d/ledger.tsv e/ledger.tsv
    echo 0 2 1 > drawn
    apart="candidate 1 of block 2 does not pass over it, candidate 2 of block 1 does"
    refused "drawn:1:5: $apart: they are of one depth" \
        np-train recipe.yaml --run f --subnets drawn -s "$deep"
}

@test "batch norm keeps a mini-batch in one piece" {
    image_recipe
    whole="batch norm takes its statistics from the whole mini-batch: there must be 1 micro-batch, not"
    stem="(conv2d(kernel=3,norm=batch,act=relu,out=8x8x8) has one)"
    refused "$whole 4 $stem" \
        np-train recipe.yaml --run a -M 4
    refused "$whole 2 $stem" \
        np-partition recipe.yaml -M 2 --profile-from model
    np-partition recipe.yaml --profile-from model > plan.yaml
    grep -q '^micro_batches: 1$' plan.yaml
    sed -i 's/^micro_batches: 1/micro_batches: 2/' plan.yaml
    refused "plan.yaml:3:16: $whole 2 $stem" \
        np-train recipe.yaml --run a --plan plan.yaml
}

@test "a plan names layers by shape, each once" {
    image_recipe
    np-partition recipe.yaml -n 2 --profile-from model > plan.yaml
    grep -q 'kind: "resnet_basic(.*in=8x8x8,out=4x4x16.*)"' plan.yaml
    [ -z "$(grep -o 'kind: "[^"]*"' plan.yaml | sort | uniq -d)" ]
    pairs_recipe
    np-partition recipe.yaml -n 2 --profile-from model > plan.yaml
    grep -q 'kind: "mha(.*memory=6.*)"' plan.yaml
}

@test "evaluations say how many classes are right, the same on every plan" {
    image_recipe
    np-train recipe.yaml --run a --schedule sequential
    np-train recipe.yaml --run b -n 3 -v --eval-every 3 --eval-subnets 4 2> said
    np-train recipe.yaml --run c -n 1 --isa scalar --eval-every 3 --eval-subnets 4
    same a b
    grep -q 'step 6: validation loss [0-9.]*, accuracy [0-9.]* %' said
    grep -q 'images/s' said
    [ "$(jq -c 'select(.valid_loss) | [.step, (.subnets | length), (.accuracies | length)]' \
        b/metrics.jsonl)" = "$(printf '[3,4,4]\n[6,4,4]')" ]
    [ "$(jq -c 'select(.valid_loss) | .valid_accuracy >= 0 and .valid_accuracy <= 1' \
        b/metrics.jsonl | sort -u)" = true ]
    cmp <(jq -c 'select(.valid_loss) | [.subnets, .accuracies]' b/metrics.jsonl) \
        <(jq -c 'select(.valid_loss) | [.subnets, .accuracies]' c/metrics.jsonl)
}

@test "layers are measured by teams of threads, whose members see each other's work" {
    image_recipe
    for threads in 2 3; do
        np-partition recipe.yaml -n 2 --threads "$threads" > plan.yaml
        grep -qx "threads: $threads" plan.yaml
    done
}

@test "a prediction of a run on images is made, and held against its trace" {
    image_recipe
    np-partition recipe.yaml -n 2 > plan.yaml
    np-train recipe.yaml --run a --plan plan.yaml --trace trace.json
    run np-predict-trace recipe.yaml --plan plan.yaml --against trace.json
    [ "$status" -eq 0 ]
    between 0.05 "$(value median_task_ratio)" 20 # the clock's unit is the trace's
}

@test "a gradient that is not finite is the same news from every plan" {
    image_recipe
    for n in 1 2 4; do
        run np-train recipe.yaml --run "r$n" -q -n "$n" -s train.optimizer.lr=1.0e12
        [ "$status" -eq 1 ]
        printf '%s\n' "$output" > "said$n"
        grep -q 'is not finite' "said$n"
    done
    run np-train recipe.yaml --run r0 --schedule sequential -s train.optimizer.lr=1.0e12
    [ "$status" -eq 1 ]
    printf '%s\n' "$output" > said0
    cmp said0 said1
    cmp said1 said2
    cmp said2 said4
}

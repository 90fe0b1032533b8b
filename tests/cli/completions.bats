#!/usr/bin/env bats
# One option table a tool: --list-options, --help, the manual and the completions agree.

load common

TOOLS="np-partition np-train np-predict-trace np-evaluate np-evolve np-derive np-export np-verify"

setup_file() {
    for shell in bash zsh fish; do
        (cd "$NP_BIN" && "$NP_TREE/completions/generate" $shell ./np-partition ./np-train \
            ./np-predict-trace ./np-evaluate ./np-evolve ./np-derive \
            ./np-export ./np-verify) > "$BATS_FILE_TMPDIR/naspipe.$shell"
    done
}

setup() {
    fresh_directory
    cp "$BATS_FILE_TMPDIR"/naspipe.* .
}

# typed LINE: what bash offers at its end, one word a line.
typed() {
    # bash splits --option=value into three words
    bash -c 'source ./naspipe.bash
        read -ra COMP_WORDS <<< "${1//=/ = }"
        [[ $1 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        function=$(complete -p "${COMP_WORDS[0]}" | sed "s/.*-F \([a-z_]*\).*/\1/")
        $function
        printf "%s\n" "${COMPREPLY[@]}"' - "$1"
}

@test "the table, --help and the manual have the same options" {
    for tool in $TOOLS; do
        $tool --list-options | cut -f 1 | sort > table
        $tool --help | grep -oE '^ +(-., +)?--[a-z-]+' | grep -oE -e '--[a-z-]+' | sort > help
        diff table help
        # the manual names all of them, and describes no other
        grep -oE 'Fl Fl [a-z-]+' "$NP_TREE/man/$tool.1" | sed 's/Fl Fl /--/' | sort -u > named
        [ -z "$(comm -23 table named)" ]
        grep '^\.It.*Fl Fl' "$NP_TREE/man/$tool.1" | grep -oE 'Fl Fl [a-z-]+' |
            sed 's/Fl Fl /--/' | grep -vx -e --list-options | sort > described
        [ -z "$(comm -13 table described)" ]
    done
}

@test "short options are the same in the table and in the manual" {
    described() {
        sed -nE 's/^\.It Fl ([a-zA-Z]) , Fl Fl ([a-z-]+).*/-\1 --\2/p' "$1" | sort
    }
    for tool in $TOOLS; do
        $tool --list-options | awk -F '\t' '$2 != "" && $2 != "-?" { print $2, $1 }' | sort > table
        described "$NP_TREE/man/$tool.1" > manual
        [ -z "$(comm -13 table manual)" ]
        if grep -q 'options are those of' "$NP_TREE/man/$tool.1"; then
            described "$NP_TREE/man/np-partition.1" >> manual
        fi
        [ -z "$(comm -23 table <(sort -u manual))" ]
    done
}

@test "every long option is in every completion" {
    for tool in $TOOLS; do
        [ "$($tool --list-options | wc -l)" -gt 4 ]
        for option in $($tool --list-options | cut -f 1); do
            typed "$tool $option" | grep -qx -e "$option"
            sed -n "/^_${tool//-/_}()/,/^}/p" naspipe.zsh | grep -qE -e "$option(\\[|[=,}])"
            grep -q -e "^complete -c $tool -l ${option#--} " naspipe.fish
        done
    done
}

@test "bash: options, words, files" {
    bash -n naspipe.bash
    [ "$(typed 'np-train --sch')" = --schedule ]
    [ "$(typed 'np-train --schedule s')" = sequential ]
    [ "$(typed 'np-train --schedule=s')" = sequential ]
    [ "$(typed 'np-train --schedule=' | tr '\n' ' ')" = "csp sequential " ]
    [ "$(typed 'np-predict-trace --format sv')" = svg ]
    [ "$(typed 'np-train --ledger ' | tr '\n' ' ')" = "steps layers " ]
    touch recipe.yaml
    [ "$(typed 'np-train rec')" = recipe.yaml ]
    [ "$(typed 'np-train --plan rec')" = recipe.yaml ]
    [ "$(typed 'np-verify --')" = "$(np-verify --list-options | cut -f 1)" ]
}

@test "words that are offered are words that the tools take" {
    tiny_recipe
    for list in 'np-train --isa ' 'np-predict-trace --schedule ' 'np-predict-trace --format ' \
        'np-partition --profile-from ' 'np-predict-trace --'{costs,cut,prefetch}' ' \
        'np-train --'{schedule,ledger,prefetch,cut}' '; do
        [ -n "$(typed "$list")" ]
    done
    for word in $(typed 'np-train --isa '); do
        np-train --version | grep -q "instruction sets:.* $word" || [ "$word" = auto ] || continue
        np-train recipe.yaml --run "$word" --isa "$word" --stop-after 1
    done
    for word in $(typed 'np-predict-trace --schedule '); do
        np-predict-trace recipe.yaml --steps 3 --schedule "$word" > /dev/null
    done
    for word in $(typed 'np-predict-trace --format '); do
        np-predict-trace recipe.yaml --steps 3 --format "$word" > /dev/null
    done
    for option in costs cut prefetch; do
        for word in $(typed "np-predict-trace --$option "); do
            np-predict-trace recipe.yaml --steps 3 -n 2 --$option "$word" --device-memory 16MiB > /dev/null
        done
    done
    for option in schedule ledger prefetch cut; do
        for word in $(typed "np-train --$option "); do
            np-train recipe.yaml --run "$option.$word" --$option "$word" -q --stop-after 1
        done
    done
    for word in $(typed 'np-partition --profile-from '); do
        np-partition recipe.yaml -n 1 -M 1 -W 1 -q --profile-from "$word" > /dev/null
    done
}

@test "zsh reads its completion" {
    command -v zsh > /dev/null || skip "no zsh"
    zsh -f -n naspipe.zsh
    [ "$(head -n 1 naspipe.zsh)" = "#compdef $TOOLS" ]
    zsh -f -c 'source ./naspipe.zsh 2> /dev/null; whence -w _np_train _np_verify' > known
    [ "$(grep -c ': function$' known)" -eq 2 ]
}

@test "fish completes" {
    command -v fish > /dev/null || skip "no fish"
    export HOME=$PWD
    fish --no-config -n naspipe.fish
    offers() { fish --no-config -c "source naspipe.fish; complete -C '$1'" | cut -f 1; }
    [ "$(offers 'np-train --sched')" = --schedule ]
    [ "$(offers 'np-train --schedule ' | tr '\n' ' ')" = "csp sequential " ]
    [ "$(offers 'np-verify --fs')" = --fsck ]
}

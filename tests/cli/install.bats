#!/usr/bin/env bats
# make install puts tools, manuals, completions and examples in place; uninstall takes them away.

load common

setup() {
    fresh_directory
    build=$(basename "$NP_BIN")
    [ "$NP_TREE/$build" = "$NP_BIN" ] || skip "the build is not a directory of the tree"
}

# The tree's makefile; -o FORCE: whatever flags the build has, nothing is built again.
in_tree() {
    make -s -C "$NP_TREE" BUILD="$build" -o FORCE "$@"
}

@test "install into DESTDIR, run from there, uninstall" {
    in_tree install DESTDIR="$PWD/root" PREFIX=/usr > log
    for tool in np-partition np-train np-predict-trace np-evaluate np-evolve np-derive \
        np-export np-verify; do
        [ -x "root/usr/bin/$tool" ]
        [ -s "root/usr/share/man/man1/$tool.1" ]
        [ -s "root/usr/share/bash-completion/completions/$tool" ]
        [ -s "root/usr/share/fish/vendor_completions.d/$tool.fish" ]
    done
    for page in "$NP_TREE"/man/*.[157]; do
        section=${page##*.}
        cmp "$page" "root/usr/share/man/man$section/${page##*/}"
    done
    [ -s root/usr/share/zsh/site-functions/_naspipe ]
    for recipe in "$NP_TREE"/examples/{*.yaml,slurm.sh,evolve}; do
        cmp "$recipe" "root/usr/share/naspipe/examples/${recipe##*/}"
    done
    # everything that was installed may be read by everyone
    [ -z "$(find root ! -perm -444)" ]
    tiny_recipe
    PATH=$PWD/root/usr/bin:$PATH np-train recipe.yaml --run a --stop-after 1
    in_tree uninstall DESTDIR="$PWD/root" PREFIX=/usr > log
    [ -z "$(find root ! -type d)" ]
}

@test "into a path with blanks; nothing else goes when that is not there" {
    mkdir -p 'a root/usr/share/naspipe' usr/share/naspipe bin share/naspipe
    in_tree install DESTDIR="$PWD/a root" prefix=/usr > log
    [ -x 'a root/usr/bin/np-train' ]
    [ -s 'a root/usr/share/naspipe/examples/spos.yaml' ]
    in_tree uninstall DESTDIR="$PWD/a root" PREFIX=/usr > log
    [ -z "$(find 'a root' ! -type d)" ]
    in_tree uninstall DESTDIR="$PWD/no root" > log
    [ -d usr/share/naspipe ]
    [ -d share/naspipe ]
    [ -d bin ]
    [ -d "$NP_TREE/examples" ]
}

@test "the default is /usr/local" {
    in_tree install DESTDIR="$PWD/root" > log
    [ -x root/usr/local/bin/np-train ]
    [ "$(ls root/usr)" = local ]
    # what is there already stays
    touch root/usr/local/bin/other root/usr/local/share/man/man1/other.1
    in_tree uninstall DESTDIR="$PWD/root" > log
    [ "$(find root ! -type d | wc -l)" -eq 2 ]
}

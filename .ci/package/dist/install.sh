#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs Cubby on Linux on x86-64, from the tarball of a release.
#
#     sh install.sh [--url URL] [--prefix DIRECTORY] [--key FILE]
#     sh install.sh --uninstall [--prefix DIRECTORY]
#
#   --url URL         where the files of the release are (default: CUBBY_RELEASE_URL)
#   --prefix DIR      where to install (default: /usr/local for root, else ~/.local)
#   --key FILE        public key of minisign: the signature of the checksums must be from it
#   --uninstall       remove what was installed there; state directories and templates stay
#
# The tarball is checked against SHA256SUMS of the release before anything is installed. An
# interrupted installation leaves the earlier programs whole: each file is replaced at once.
set -eu
version=@VERSION@ glibc=@GLIBC@
url=${CUBBY_RELEASE_URL:-@URL@} key= uninstall= prefix=$HOME/.local
[ "$(id -u)" != 0 ] || prefix=/usr/local

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

value() { [ $# -ge 2 ] || fail "$1 needs a value"; }
while [ $# -gt 0 ]; do
    case $1 in
    --url) value "$@"; url=$2; shift ;;
    --prefix) value "$@"; prefix=$2; shift ;;
    --key) value "$@"; key=$2; shift ;;
    --uninstall) uninstall=1 ;;
    --help) sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) fail "unknown option $1; see install.sh --help" ;;
    esac
    shift
done
case $prefix in
/*) ;;
*) prefix=$PWD/$prefix ;;
esac
manifest=$prefix/share/cubby/manifest

# Remove the files of an installation that a list names, and directories that are empty then.
remove() { # LIST
    while read -r file; do
        rm -f "$prefix/$file"
    done <"$1"
    sed 's#/[^/]*$##' "$1" | LC_ALL=C sort -ru | while read -r dir; do
        while [ "$dir" != . ] && rmdir "$prefix/$dir" 2>/dev/null; do
            dir=$(dirname "$dir")
        done
    done
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM HUP
if [ -n "$uninstall" ]; then
    [ -f "$manifest" ] || fail "there is no $manifest: nothing of Cubby is below $prefix"
    cp "$manifest" "$work/manifest"
    remove "$work/manifest"
    echo "removed Cubby from $prefix; state directories and templates stay"
    exit 0
fi

# ---- 1. can it run here?
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || fail "this release is for Linux on x86-64, and this is $(uname -s) on $(uname -m)"
has=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2) || has=
[ -n "$has" ] || fail "this release needs glibc $glibc or newer, and this computer has another C library"
[ "$(printf '%s\n%s\n' "$glibc" "$has" | sort -V | head -n 1)" = "$glibc" ] ||
    fail "this release needs glibc $glibc or newer, and this computer has $has"
[ -n "$url" ] || fail "say where the release is: --url URL"

# ---- 2. download and check
fetch() { # NAME: into the work directory
    if command -v curl >/dev/null; then
        curl -fsSL --retry 2 -o "$work/$1" "$url/$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$work/$1" "$url/$1"
    else
        fail "neither curl nor wget is installed"
    fi || fail "cannot download $url/$1"
}
name=cubby-$version-linux-x86_64.tar.gz
echo "downloading $name"
fetch SHA256SUMS
if [ -n "$key" ]; then
    command -v minisign >/dev/null || fail "--key needs minisign; install it, or check the signature on another computer"
    fetch SHA256SUMS.minisig
    minisign -V -q -p "$key" -m "$work/SHA256SUMS" || fail "the signature of SHA256SUMS is not from this key; nothing was installed"
fi
fetch "$name"
grep " $name\$" "$work/SHA256SUMS" >"$work/sum" || fail "SHA256SUMS does not name $name"
(cd "$work" && sha256sum -c --status sum) || fail "$name has another checksum than SHA256SUMS says; nothing was installed"

# ---- 3. install
mkdir -p "$prefix" || fail "cannot write to $prefix; give --prefix DIRECTORY, or run as root"
tar -xzf "$work/$name" -C "$work"
new=$work/cubby-$version
old=$work/old
if [ -f "$manifest" ]; then cp "$manifest" "$old"; else : >"$old"; fi
while read -r file; do
    mkdir -p "$(dirname "$prefix/$file")"
    cp -p "$new/$file" "$prefix/$file.new.$$" || fail "cannot write $prefix/$file.new.$$"
    mv -f "$prefix/$file.new.$$" "$prefix/$file"
done <"$new/share/cubby/manifest"
# What an earlier version had, and this one has not.
LC_ALL=C sort "$old" >"$work/old.sorted"
LC_ALL=C sort "$new/share/cubby/manifest" | LC_ALL=C comm -23 "$work/old.sorted" - >"$work/gone"
remove "$work/gone"
echo "installed Cubby $version below $prefix"
case :$PATH: in
*:"$prefix/bin":*) ;;
*) echo "add it to your PATH: export PATH=$prefix/bin:\$PATH" ;;
esac
echo "next: $prefix/bin/cubby setup"

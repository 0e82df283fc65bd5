#!/usr/bin/env bash
# Puts ptmem on the path of the following steps: the one already there, or the released binary, or a build from
# the source of the action. Exits with 2 if none of these is possible.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A failure here is not a verdict: exit code 1 would read as a regression.
trap '[ $? -eq 0 ] || exit 2' EXIT

version=${PTMEM_VERSION:-}
version=${version#v}
source=${GITHUB_ACTION_PATH:?the folder of the action}
source=${source//\\//}
source_version=$(sed -n '/^version = /{s/^version = "\([^"]*\)".*/\1/p;q;}' "$source/Cargo.toml")

fail() {
  error "$1"
  exit 2
}

pattern='^[0-9][0-9A-Za-z.+-]*$'
[ -z "$version" ] || [[ $version =~ $pattern ]] ||
  fail "version: '$PTMEM_VERSION' is not accepted; expected a released version such as $source_version"

# version_of PROGRAM: its version. Another tool for the same files is called ptmem, too: only what says that it is ptmem-gate
# counts. Fails for everything else.
version_of() {
  local said
  command -v "$1" > /dev/null && said=$("$1" --version 2> /dev/null < /dev/null | tr -d '\r') || return 1
  [[ $said = 'ptmem-gate '* ]] && printf '%s' "${said#ptmem-gate }"
}

# put_first FOLDER: on the path of the following steps, before all others.
put_first() {
  if command -v cygpath > /dev/null; then cygpath -w "$1"; else printf '%s\n' "$1"; fi >> "${GITHUB_PATH:-/dev/null}"
}

repository=${PTMEM_ACTION_REPOSITORY:-${GITHUB_ACTION_REPOSITORY:-}}
folder=$(new_folder)
mkdir "$folder/bin"

for program in ptmem ptmem-gate; do
  found=$(version_of "$program") && [ "${version:-$found}" = "$found" ] || continue
  printf 'using ptmem-gate %s, which is on the path as %s\n' "$found" "$program"
  [ "$program" = ptmem-gate ] || exit 0
  # The following steps call it ptmem, whatever else has that name.
  printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v ptmem-gate)" > "$folder/bin/ptmem"
  chmod +x "$folder/bin/ptmem"
  put_first "$folder/bin"
  exit 0
done
version=${version:-$source_version}

archive=tar.gz
binary=ptmem
case $(uname -s)/$(uname -m) in
  Linux/x86_64) target=x86_64-unknown-linux-musl ;;
  Linux/aarch64 | Linux/arm64) target=aarch64-unknown-linux-musl ;;
  Darwin/x86_64) target=x86_64-apple-darwin ;;
  Darwin/arm64) target=aarch64-apple-darwin ;;
  # Windows on Arm runs it, too.
  MINGW* | MSYS* | CYGWIN*) target=x86_64-pc-windows-msvc archive=zip binary=ptmem.exe ;;
  *) target= ;;
esac
name=ptmem-$version-$target

# The checksum in the first line of a checksum file; a backslash before it marks an escaped file name.
first_checksum() { tr -d '\r' | sed -n '1{s/^\\//;s/[^0-9a-f].*//;p;}'; }

checksum_of() { if command -v sha256sum > /dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi; }

# Without the user's settings for curl. A release redirects to where its files are, but never to plain text.
fetch() {
  curl -q --fail --silent --show-error --location --proto-redir =https --retry 2 --retry-delay 1 \
    --connect-timeout 10 --max-time 300 --output "$2" "$1"
}

# Fails where there is no such release for this machine or no way to it. An archive with the wrong checksum is not
# that: somebody changed it, and nothing goes on.
fetch_release() {
  local url expected actual
  [ -n "$repository" ] && [ -n "$target" ] && command -v curl > /dev/null || return 1
  url=${GITHUB_SERVER_URL:-https://github.com}/$repository/releases/download/v$version/$name.$archive
  printf 'downloading %s\n' "$url"
  fetch "$url.sha256" "$folder/archive.sha256" && fetch "$url" "$folder/archive.$archive" || return 1
  expected=$(first_checksum < "$folder/archive.sha256") || true
  actual=$(checksum_of "$folder/archive.$archive" | first_checksum) || true
  [ ${#expected} -eq 64 ] && [ "$actual" = "$expected" ] ||
    fail "$name.$archive has not the checksum of its release: expected '$expected', found '$actual'"
}

unpack() {
  mkdir "$folder/unpacked"
  if [ "$archive" = tar.gz ]; then
    tar -xzf "$folder/archive.$archive" -C "$folder/unpacked"
  elif command -v unzip > /dev/null; then
    unzip -q "$folder/archive.$archive" -d "$folder/unpacked"
  else
    # The tar of Windows reads zip; that of Git for Windows does not.
    "${SYSTEMROOT//\\//}/System32/tar.exe" -xf "$folder/archive.$archive" -C "$folder/unpacked"
  fi
  mv "$folder/unpacked/$name/$binary" "$folder/bin/$binary"
}

build() {
  local missing="release $version has no download for this machine"
  [ "$version" = "$source_version" ] || fail "$missing, and the source of the action is version $source_version"
  command -v cargo > /dev/null || fail "$missing, and no cargo to build it with; install Rust in a step before this one"
  printf '%s; building it from the source of the action\n' "$missing"
  # From the folder of the source: rustup would follow a toolchain file of the code under test.
  (cd "$source" && cargo install --locked --path "$source" --root "$folder") ||
    fail "ptmem $version could not be built from the source of the action"
}

if fetch_release; then unpack; else build; fi

# Another program, or one that does not start, fails here, so that nothing it does is mistaken for a verdict later.
said=$("$folder/bin/$binary" --version | tr -d '\r')
[[ $said = 'ptmem-gate '* ]] || fail "the program that was installed says '$said' of itself; expected ptmem-gate and its version"
printf '%s\n' "$said"
put_first "$folder/bin"

#!/usr/bin/env bash
# Makes a tar of a built program, for systems without Debian packages: scripts/tar.sh PROGRAM OUTPUT_DIRECTORY
# It unpacks to one folder: the program, its licence, the settings and the systemd unit to change, the pages.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${1:?the program}
output=${2:?the directory for the tar}
version=$("$program" --version | cut -d' ' -f2)
name=heddle_${version}_$(uname -m)
# The same sources give the same tar.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/$name
install -D -m 755 "$program" "$root/heddle"
strip --strip-unneeded "$root/heddle"
install -m 644 LICENSE README.md CHANGELOG.md packaging/heddle.toml packaging/heddle.service packaging/heddle.8 "$root/"
install -D -m 644 -t "$root/docs" docs/*.md

mkdir -p "$output"
tar --create --directory "$folder" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
  --mode='u+rw,go+r,go-w' "$name" | gzip -9n >"$output/$name.tar.gz"
echo "$output/$name.tar.gz"

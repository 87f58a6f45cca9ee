#!/usr/bin/env bash
# Learns from loads which of the program's code is hot: builds it with counters inside, lets it serve (bench/train.py), and
# writes what was counted to a file for `make dist PROFILE=FILE`. Usage: scripts/profile.sh FILE
#
# The file fits builds of the same profile by the same compiler. Functions that have changed since are built as without it.
set -euo pipefail

file=$(realpath -m "$1")
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
host=$(rustc -vV | sed -n 's/^host: //p')
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin
if [ ! -x "$tools/llvm-profdata" ]; then
  rustup component add llvm-tools
fi
counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT

# For a named target build scripts and macros are built without counters.
"$cargo" build --profile dist --locked --package heddle --target "$host" \
  --config "target.$host.rustflags=['-Cprofile-generate=$counts']"
"$cargo" build --release --locked --package testkit --example kvload
HEDDLE="$target/$host/dist/heddle" KVLOAD="$target/release/examples/kvload" PROFILES="$counts" \
  python3 "$(dirname "$0")/../bench/train.py"
mkdir -p "$(dirname "$file")"
"$tools/llvm-profdata" merge -o "$file" "$counts"

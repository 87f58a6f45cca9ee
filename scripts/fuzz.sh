#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS (600). The seeds lie beside the code, in
# crates/CRATE/corpus/TARGET; a finding is kept in fuzz/artifacts/TARGET and ends the run with exit 1.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-600}
if ! rustup toolchain list 2>/dev/null | grep -q '^nightly'; then
  echo "fuzz: the instrumentation needs nightly Rust: rustup toolchain install nightly --profile minimal" >&2
  exit 1
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
  echo "fuzz: installing cargo-fuzz"
  cargo install --quiet --locked cargo-fuzz
fi

targets=${FUZZ_TARGETS:-$(cargo +nightly fuzz list)}
if [ -z "$targets" ]; then
  echo "fuzz: no targets under fuzz/" >&2
  exit 1
fi

found=()
for target in $targets; do
  echo "== $target, $seconds s"
  # New inputs go to a scratch directory: the repository keeps the seeds that people chose.
  grown=fuzz/target/corpus/$target
  mkdir -p "$grown"
  seeds=(crates/*/corpus/"$target")
  [ -d "${seeds[0]}" ] || { echo "fuzz: $target has no corpus" >&2; exit 1; }
  if ! cargo +nightly fuzz run "$target" "$grown" "${seeds[@]}" -- \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0; then
    found+=("$target")
  fi
done

if [ ${#found[@]} -gt 0 ]; then
  echo "fuzz: findings in ${found[*]}; inputs are under fuzz/artifacts/" >&2
  exit 1
fi
echo "fuzz: no finding in: $(echo $targets)"

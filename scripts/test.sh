#!/usr/bin/env bash
# Runs the checks and every test of the workspace, prints the summaries of its binaries, and at the end
# one line with the sum over all test binaries. The exit code is 0 only when everything passed.
set -uo pipefail
cd "$(dirname "$0")/.."

cargo=${CARGO:-cargo}
log=$(mktemp)
trap 'rm -f "$log" "$log.tour"' EXIT
failed_steps=()
# What the compiler would keep for the next build is several gigabytes, and a clean clone has no next build.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

step() {
  echo "== $*"
  "$@" || failed_steps+=("$*")
}

step "$cargo" fmt --all --check
step "$cargo" clippy --workspace --all-targets --locked --quiet -- -D warnings

echo "== scripts/run_tests.py"
scripts/run_tests.py 2>&1 | tee "$log"
if [ "${PIPESTATUS[0]}" -ne 0 ]; then failed_steps+=("scripts/run_tests.py"); fi

target=${CARGO_TARGET_DIR:-target}
if "$cargo" build --locked --quiet --package heddle; then
  # Its output is the text of the README and of docs/TOUR.md: it is shown only when something is wrong.
  echo "== scripts/tour.py $target/debug/heddle"
  if scripts/tour.py "$target/debug/heddle" >"$log.tour" 2>&1; then
    tail -n 1 "$log.tour"
  else
    cat "$log.tour"
    failed_steps+=("scripts/tour.py")
  fi
  step env HEDDLE_BIN="$target/debug/heddle" python3 -m unittest discover -s packaging/tests
  # What differs is shown; the sum below counts Rust's tests only.
  step python3 test/compat/run.py --quick --heddle "$target/debug/heddle"
fi

echo
# A test that found no server of some release says so and passes; cargo cannot know.
sed -n 's/^.*\(skipped: .*\)$/\1/p' "$log" | sort | uniq -c | sed 's/^ */without effect here, times: /'
for name in "${failed_steps[@]}"; do echo "failed: $name"; done
awk '/^test result: / { binaries++; passed += $4; failed += $6; skipped += $8 }
  END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped; exit binaries == 0 }' "$log" \
  || failed_steps+=("no test ran")
[ ${#failed_steps[@]} -eq 0 ]

#!/usr/bin/env bash
# The browser test of the console: its packages from npm, then run.mjs. Usage: run.sh HEDDLE (none: made-up farms only)
set -euo pipefail
heddle=${1:+$(realpath "$1")}
cd "$(dirname "$0")"

found=${CHROMIUM:-}
for program in chromium chromium-browser google-chrome google-chrome-stable; do
  if [ -z "$found" ]; then found=$(command -v "$program" || true); fi
done
if [ -z "$found" ]; then
  echo "test-console: skipped: no Chromium; install the Debian package chromium, or name one: CHROMIUM=PATH"
  exit 0
fi
if [ ! -d node_modules/puppeteer-core ]; then
  # Both are what they were when the lock was written; neither runs a script or fetches a browser.
  npm ci --silent --ignore-scripts --no-audit --no-fund
fi
CHROMIUM=$found exec node run.mjs $heddle

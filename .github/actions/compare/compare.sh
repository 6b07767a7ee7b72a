#!/usr/bin/env bash
# Runs a suite on two commits of the checkout in the working directory and compares them.
# Reads RB_SUITE, RB_OPTIONS, RB_BASE, RB_INSTALL, RB_FAIL_ON and RB_MARGIN; see action.yml.
set -euo pipefail

work=$(mktemp -d "${RUNNER_TEMP:-/tmp}/recoverybench.XXXXXX")
head=$(git rev-parse HEAD)
base=$(git rev-parse --verify --quiet "${RB_BASE:?}^{commit}") || {
  git fetch --quiet --depth=1 origin "$RB_BASE"
  base=$(git rev-parse FETCH_HEAD)
}

# Each side in a worktree and an environment of its own.
for side in base head; do
  git worktree add --quiet --detach "$work/$side" "${!side}"
  "${RB_PYTHON:-python3}" -m venv "$work/$side-python"
  (cd "$work/$side" && PYTHON="$work/$side-python/bin/python" bash -euo pipefail -c "$RB_INSTALL")
done
cleanup() {
  for side in base head; do git worktree remove --force "$work/$side" || true; done
}
trap cleanup EXIT

# The options are words, quoted as on a command line; nothing in them is expanded or run.
options=()
[ -z "${RB_OPTIONS// /}" ] || mapfile -t options < <(xargs -n 1 printf '%s\n' <<< "$RB_OPTIONS")
for side in base head; do
  (cd "$work/$side" && "$work/$side-python/bin/python" -m recoverybench run "$RB_SUITE" "${options[@]}" \
    --label "${!side}" --out "$work/results/$side" --report "$work/$side.html")
done

compare=("$work/head-python/bin/python" -m recoverybench compare "$work/results/base" "$work/results/head" --margin "$RB_MARGIN")
verdict=ok
if [ "$RB_FAIL_ON" = never ]; then
  "${compare[@]}" --format markdown -o "$work/comparison.md"
else
  "${compare[@]}" --format markdown -o "$work/comparison.md" --fail-on "$RB_FAIL_ON" || {
    code=$?
    [ "$code" -eq 1 ] || exit "$code"
    verdict=wrong
  }
fi
"${compare[@]}"
cat "$work/comparison.md" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
{
  echo "markdown=$work/comparison.md"
  echo "verdict=$verdict"
} >> "${GITHUB_OUTPUT:-/dev/stdout}"

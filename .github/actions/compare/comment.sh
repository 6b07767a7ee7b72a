#!/usr/bin/env bash
# Posts the comparison on the pull request, in the place of the comment that an earlier run left.
# Reads RB_MARKDOWN, RB_REPOSITORY, RB_NUMBER and GH_TOKEN.
set -euo pipefail

marker=$(head -n 1 "$RB_MARKDOWN")
found=$(gh api --paginate "repos/$RB_REPOSITORY/issues/$RB_NUMBER/comments" \
  --jq ".[] | select(.body | startswith(\"$marker\")) | .id" | head -n 1)
if [ -n "$found" ]; then
  gh api --silent --method PATCH "repos/$RB_REPOSITORY/issues/comments/$found" -F body=@"$RB_MARKDOWN"
else
  gh api --silent --method POST "repos/$RB_REPOSITORY/issues/$RB_NUMBER/comments" -F body=@"$RB_MARKDOWN"
fi

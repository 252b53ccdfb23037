#!/usr/bin/env bash
# Runs ssh for Ansible, and keeps its arguments, its input and its output in the folder SSH_RECORDS.
set -o pipefail
file=$(mktemp "$SSH_RECORDS/$(date +%s%N)-XXXXXX")
printf '%s\0' "$@" >"$file"
if [ -t 0 ]; then ssh "$@"; else tee "$file.input" | ssh "$@"; fi | tee "$file.output"

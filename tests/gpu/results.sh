# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: one stage, its row of the table, and the table. Uses run.sh's variables: work,
# out, stages, failed.

kMargin=12     # seconds that ending a stage and writing the table may take
kKillAfter=8   # seconds from asking a stage to end to killing it

# verdict_of NAME CODE: what an exit code of a stage means.
verdict_of() {
  case $2 in
    0) if [[ $1 == compare-* || $1 == exchange-cost ]]; then echo "ran"; else echo "passed"; fi ;;
    75) echo "not measured" ;;
    4) echo "does not work" ;;
    124 | 137) echo "CUT OFF" ;;
    *) if (($2 > 128)); then echo "CRASHED (signal $(($2 - 128)))"; else echo "FAILED ($2)"; fi ;;
  esac
}

# counted LOG: the line in which a stage says what came out of it.
counted() {
  local lines='^Memory-bound|^Slower than|^Within [0-9]+%|^torch_rates: not measured'
  lines+='|^does not work: |^not measured: |^One launch: |^the same bits: |^cases met: '
  if grep --text --quiet '^result: ' "$1"; then
    grep --text '^result: ' "$1" | sed 's/^result: //; s/|/ /g' | paste --serial --delimiters=';' | sed 's/;/; /g; s/;  */; /g'
  else
    grep --text --extended-regexp "$lines" "$1" | tail -n 1 | sed 's/|/ /g' || true
  fi
}

# run_stage INDEX NAME LIMIT: runs a stage for at most LIMIT seconds and writes its row.
run_stage() {
  local log=$work/logs/$2.log start=$SECONDS code=0 verdict note
  echo "--- $2 (at most $3 s)"
  timeout --kill-after=$kKillAfter "$3" bash "$stages" "$2" >"$log" 2>&1 </dev/null || code=$?
  verdict=$(verdict_of "$2" "$code")
  note=$(counted "$log")
  if [[ $verdict == "CUT OFF" ]]; then note="after $3 s${note:+; $note}"; fi
  case $verdict in
    FAILED* | CRASHED* | CUT*) failed=1 && tail -n 30 "$log" ;;
  esac
  write_row "$1" "$2" "$verdict" "$note" $((SECONDS - start))
  echo "    $verdict${note:+: $note} ($((SECONDS - start)) s)"
}

row_file() { printf '%s/rows/%02d-%s' "$work" "$1" "$2"; }

# write_row INDEX NAME VERDICT NOTE SECONDS
write_row() { echo "| $2 | $3 | $4 | $5 |" >"$(row_file "$1" "$2")"; }

# has_passed INDEX NAME: in an earlier call.
has_passed() {
  local row
  row=$(row_file "$1" "$2")
  [[ -e $row ]] && grep --quiet --extended-regexp '^\| [^|]* \| (passed|ran) \|' "$row"
}

# section TITLE STAGE: what a stage printed, where it ran.
section() {
  local log=$work/logs/$2.log
  [[ -s $log ]] || return 0
  printf '\n### %s\n\n' "$1"
  # sed reads to the end: who closes a pipe early ends the other side, and this script with it.
  grep --text --invert-match '^result: ' "$log" | sed -n '1,400p' || true
}

# write_results: the table of all rows so far, whole at every moment, and all logs.
write_results() {
  local case
  {
    echo "## $(date -u +%Y-%m-%d), $GPU_KIT_DEVICE_NAME, commit $GPU_KIT_COMMIT"
    echo
    echo "| stage | verdict | what it counted | seconds |"
    echo "|---|---|---|---|"
    cat "$work"/rows/* 2>/dev/null || true
    section "NCCL on one rank" nccl-probe
    section "Long attention" attention
    section "Rates of the operators" rates
    section "The same products by PyTorch" torch-rates
    section "Calls of a steady step" one-launch
    section "Memory against the plan" memory
    section "The reproducible exchange" exchange-cost
    for case in gpt2-124m resnet50 resnet18 resnet18-batch-512 nanogpt-char iris; do
      section "Training: $case" "compare-$case"
    done
    section "Surroundings" surroundings
  } >"$out/RESULTS.md.part"
  mv "$out/RESULTS.md.part" "$out/RESULTS.md"
  tar --create --gzip --file "$out/logs.tar.gz.part" --directory "$work" logs
  mv "$out/logs.tar.gz.part" "$out/logs.tar.gz"
}

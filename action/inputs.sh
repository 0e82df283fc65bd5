# shellcheck shell=bash
# Checks the inputs of the action. Sourced by run.sh, whose variables these are.
# shellcheck disable=SC2034,SC2154

key_is_valid=true

# check_inputs: each invalid input gets its own annotation; all are reported at once.
check_inputs() {
  local valid=true
  one_of command "$subcommand" diff check leak || valid=false
  one_of comment "${PTMEM_COMMENT:-auto}" auto always on-change never || valid=false
  one_of summary "$summary" true false || valid=false
  one_of annotations "$annotations" true false || valid=false
  one_of page "$with_page" true false || valid=false
  one_of exit-zero "$exit_zero" true false || valid=false
  if [ -n "$profiles" ]; then
    valid_key profiles "$profiles" || valid=false
  fi
  if [ -n "${PTMEM_PICTURES:-}" ]; then
    valid_key pictures "$PTMEM_PICTURES" || valid=false
  fi
  if ! valid_key comment-key "$key" || { [ -n "$name" ] && ! valid_key name "$name"; }; then
    key_is_valid=false
    valid=false
  fi
  if [ $valid = false ]; then
    could_not_run "the inputs are not valid; the annotations of the step name each"
  fi
}

# split INPUT TEXT: the words of a text go to words.txt. xargs knows quotes and backslashes, but evaluates nothing. It does
# not know lines that go on after a backslash, and of nothing it would make one empty word.
split() {
  local text=${2//$'\r'/}
  text=${text//\\$'\n'/}
  : > "$folder/words.txt"
  if [[ $text =~ [^[:space:]] ]]; then
    if ! printf '%s\n' "$text" | xargs printf '%s\n' > "$folder/words.txt" 2> /dev/null; then
      could_not_run "$1: cannot be split into words; is a quote not closed?"
    fi
  fi
}

suite=false
words=()
simulate_words=()

# split_inputs: the words of the inputs that hold several.
split_inputs() {
  local word
  split args "${PTMEM_ARGS:-}"
  while IFS= read -r word; do
    words+=("$word")
    case $word in
      --suite | --suite=*) suite=true ;;
      # The job would not know that it is to pass.
      --exit-zero) could_not_run "args: --exit-zero is not accepted here; set the input exit-zero to true" ;;
    esac
  done < "$folder/words.txt"
  split simulate-args "${PTMEM_SIMULATE_ARGS:-}"
  while IFS= read -r word; do
    simulate_words+=("$word")
  done < "$folder/words.txt"
}

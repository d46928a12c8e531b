"""Shell functions that `pykafka completion` adds to the scripts of shtab. They ask `pykafka` for names of a cluster.

They run the program that the line names, because its environment need not be active.
"""

from __future__ import annotations

NAMES = {
    kind: {"bash": f"_pykafka_{kind}", "zsh": f"_pykafka_{kind}", "fish": f"(__pykafka_names {kind})"}
    for kind in ("topics", "groups")
}
"""For shtab: how each shell completes a name."""

BEFORE = {
    "bash": r"""
_pykafka_names() {  # $1: topics or groups; $2: how the name begins
  local name program="${COMP_WORDS[0]/#\~/$HOME}"
  while IFS= read -r name; do
    [[ $name == "$2"* ]] && printf '%s\n' "$name"
  done < <("$program" completion bash --names "$1" --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null </dev/null)
}
_pykafka_topics() { _pykafka_names topics "$1"; }
_pykafka_groups() { _pykafka_names groups "$1"; }
""",
    "zsh": r"""
_pykafka_names() {  # $1: topics or groups; then arguments of compadd
  local kind=$1; shift
  local -a typed names
  typed=(${(z)LBUFFER})
  local program=${(Q)typed[(R)*pykafka]}
  names=(${(f)"$(${~program:-pykafka} completion zsh --names $kind --line "$LBUFFER" 2>/dev/null </dev/null)"})
  compadd "$@" -- $names
}
_pykafka_topics() { _pykafka_names topics "$@" }
_pykafka_groups() { _pykafka_names groups "$@" }
""",
    "fish": r"""
function __pykafka_names
    set -l typed (commandline -opc)
    set -l program (string replace -r '^~' "$HOME" -- $typed[1])
    command $program completion fish --names $argv[1] --line (commandline -cp | string collect) 2>/dev/null </dev/null
end
""",
}

AFTER = {
    # Bash breaks words at each colon, and HOST:PORT is one word of ours.
    "bash": r"""
_pykafka() {
  local -a words=()
  local rest=$COMP_LINE spaces word at=0 index
  for index in "${!COMP_WORDS[@]}"; do
    word=${COMP_WORDS[index]}
    spaces=${rest%%[![:space:]]*}
    rest=${rest#"$spaces"}
    rest=${rest#"$word"}
    if [[ $index -gt 0 && -z $spaces && ( $word == :* || ${words[${#words[@]} - 1]} == *: ) ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    [[ $index -eq $COMP_CWORD ]] && at=$((${#words[@]} - 1))
  done
  local typed=${words[at]}
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$at
  _shtab_pykafka "$1" "$typed" "${words[at - 1]}"
  local before=${typed%"${typed##*:}"}
  for index in "${!COMPREPLY[@]}"; do
    COMPREPLY[index]=${COMPREPLY[index]#"$before"}
  done
}
complete -o bashdefault -F _pykafka pykafka
""",
    "zsh": "",
    "fish": "",
}

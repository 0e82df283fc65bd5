# shellcheck shell=bash
# Keeps secrets out of comments and reports: recorded code gets the environment of the step, and reports contain the end of its output
# and the messages of its exceptions. Sourced by run.sh.

# secrets: the lines of the variables whose names say that they hold one. Short ones would hide words.
secrets() {
  local name
  while IFS= read -r name; do
    case $name in
      PTMEM_*) ;;
      *TOKEN* | *SECRET* | *PASSWORD* | *PASSWD* | *CREDENTIAL* | *KEY*)
        printf '%s\n' "${!name}" | awk 'length($0) >= 8'
        ;;
    esac
  done < <(compgen -e)
}

# mask_secrets: standard input with *** in place of each secret. A character may be an entity of Markdown, maybe with a space without
# width behind it, or of HTML, or be escaped as in JSON or in a workflow command.
mask_secrets() {
  SECRETS=$(secrets) awk '
    BEGIN {
      for (code = 33; code < 127; code++) code_of[sprintf("%c", code)] = code
      special["&"] = "&amp;"; special["<"] = "&lt;"; special[">"] = "&gt;"
      special["\""] = "&quot;|\\\\\""; special["\\"] = "\\\\\\\\"
      count = split(ENVIRON["SECRETS"], secrets, "\n")
      for (i = 1; i <= count; i++) patterns[i] = pattern_of(secrets[i])
    }
    function pattern_of(text, at, c, pattern) {
      for (at = 1; at <= length(text); at++) {
        c = substr(text, at, 1)
        if (c ~ /[[:alnum:]]/ || !(c in code_of)) pattern = pattern c
        else pattern = pattern "(" literal(c) "|&#" code_of[c] ";|" escaped(code_of[c], "%02x") "|" escaped(code_of[c], "%02X") \
          (c in special ? "|" special[c] : "") ")(\342\200\213)?"
      }
      return pattern
    }
    function escaped(code, form) { return "&#[xX]" sprintf(form, code) ";|%" sprintf(form, code) "|\\\\u00" sprintf(form, code) }
    function literal(c) { return c == "\\" || c == "^" ? "\\" c : "[" c "]" }
    { for (i = 1; i <= count; i++) gsub(patterns[i], "***"); print }
  '
}

# mask_file FILE
mask_file() {
  [ -f "$1" ] || return 0
  mask_secrets < "$1" > "$1.masked"
  mv "$1.masked" "$1"
}

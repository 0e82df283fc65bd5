# The text of a comment: a hidden first line with the key, and the report. Each of several gates with names has a section,
# behind a hidden line with its name and the run that wrote it. Sections of other runs go, lest a gate that no longer runs
# keeps its verdict. Where all are too long, the others give way to their headings.
#
# The report may come from a pull request: its first line is no proof of the key, and it holds no section of its own.

# Of somebody else, it is text alone: a space without width keeps names of people from becoming mentions, pictures and other tags from
# being drawn, and lines from being commands of bots, whatever these take for the end of a line and for a blank.
def as_text:
  gsub("(?<sign>@|&(#0*64|#x0*40|commat);)"; .sign + "\u200b"; "i")
  | gsub("!(?=\\[)"; "!\u200b")
  | gsub("<(?!/?(details|summary|sub|code|br)\\b[^<>=]*>)(?=[A-Za-z/!?])"; "<\u200b"; "i")
  | gsub("(?<blanks>(^|[\n\r\u0085\u2028\u2029])[^\\S\n\r\u0085\u2028\u2029]*)/"; .blanks + "\u200b/");

def begin: "<!-- ptmem-section:";

def text: begin + .name + " " + .run + " -->\n" + .report;

def sections:
  split("\n" + begin) | .[1:]
  | map(capture("^(?<name>[A-Za-z0-9._/-]+) (?<run>[0-9.]*) -->\n")
      + {report: (.[index("\n") + 1:] | rtrimstr("\n"))});

# The attempts of a run are on one commit.
def run: .run | split(".")[0];

# The heading, and the first remark: what reviewers must see comes first.
def shortened:
  split("\n") | [.[0]] + [first(.[1:][] | select(startswith("> ⚠️"))) | .[:1000]] | join("\n\n");

def whole: [$marker] + map(text) | join("\n");

def in_sections:
  {name: $name, run: $run, report: rtrimstr("\n")} as $own
  | ($existing | sections | map(select(run == ($own | run)))) as $others
  | (if any($others[]; .name == $name)
     then $others | map(if .name == $name then $own else . end)
     else $others + [$own] end)
  | if (whole | length) > $most
    then map(if .name == $name then . else .report |= (shortened + "\n\nThe rest is in the log of the run.") end)
    else . end
  | whole;

if startswith("<!-- ptmem:") then .[(index("\n") // length) + 1:] else . end
| split(begin) | join("<!-- ptmem section:")
| if $foreign then as_text else . end
| if $name != "" then in_sections else $marker + "\n" + $writer + . end
| {body: .}

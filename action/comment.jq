# The text of a comment: a hidden first line, and a section for each report, behind a hidden line with its name, and the workflow and run
# that wrote it. Sections of other runs of the workflow go, lest a gate that no longer runs keeps its verdict.
# Reports that are too long are cut, once they are text: other sections to their headings first.
#
# The report may come from a pull request: its first line is no proof of the key, and it holds no section of its own.

# GitHub takes no longer comments.
def most: 65000;

# A report of somebody else is text alone: a space without width keeps names of people from becoming mentions, pictures and other tags from
# being drawn, and lines from being commands of bots, whatever these take for the end of a line and for a blank. (gsub would take the
# square of the matches.)
def as_text:
  "[\n\u000b\f\r\u001c\u001d\u001e\u0085\u2028\u2029]" as $eol
  | "(?:(?!\($eol))[\\s\u001f\ufeff])*\\z" as $blanks
  | split("@") | join("@\u200b")
  | split("![") | join("!\u200b[")
  | split("&") | .[:1] + (.[1:] | map(sub("\\A(?<sign>#0*64|#x0*40|commat);"; .sign + ";\u200b"; "i"))) | join("&")
  | split("<") | .[:1] + (.[1:] | map(
      if test("\\A[A-Za-z/!?]") and (test("\\A/?(details|summary|sub|code|br)\\b[^<>=]*>"; "i") | not) then "\u200b" + . else . end
    )) | join("<")
  | split("/") | .[-1:] as $last
  | ((.[:-1] | .[:1] | map(if test("(\\A|\($eol))\($blanks)") then . + "\u200b" else . end))
     + (.[:-1] | .[1:] | map(if test("\($eol)\($blanks)") then . + "\u200b" else . end))
     + $last)
  | join("/");

# The beginning of a text in at most so many bytes, with an end to a block of code that was begun.
def cut($bytes):
  "\n\nThe rest is in the log of the run." as $rest
  | if utf8bytelength <= $bytes then .
    else until(utf8bytelength <= $bytes - 50; .[:length - ([(utf8bytelength - $bytes + 50) / 4 | ceil, 1] | max)])
      | (if (split("\n```") | length) % 2 == 0 then . + "\n```" else . end) + $rest
    end;

def begin: "<!-- ptmem-section:";

def text: begin + .name + " " + .run + " -->\n" + .report;

def sections:
  split("\n" + begin) | .[1:]
  | map(capture("^(?<name>[A-Za-z0-9._-]+) (?<run>[A-Za-z0-9._-]* [0-9.]*) -->\n")
      + {report: (.[index("\n") + 1:] | rtrimstr("\n"))});

def workflow: .run | split(" ")[0];

# The attempts of a run are on one commit.
def run: .run | split(" ")[1] | split(".")[0];

def is($own): .name == $own.name and workflow == ($own | workflow);

# The heading, and the first remark: what reviewers must see comes first.
def shortened:
  split("\n") | [.[0]] + [first(.[1:][] | select(startswith("> ⚠️"))) | .[:1000]] | join("\n\n");

def whole: [$marker] + map(text) | join("\n");

def in_sections:
  {name: $name, run: $run, report: rtrimstr("\n")} as $own
  | ($existing | sections | map(select(workflow != ($own | workflow) or run == ($own | run)))) as $others
  | (if any($others[]; is($own))
     then $others | map(if is($own) then $own else . end)
     else $others + [$own] end)
  | if (whole | utf8bytelength) > most
    then map(if is($own) then . else .report |= (shortened + "\n\nThe rest is in the log of the run.") end)
    else . end
  | ([most - (whole | utf8bytelength) + ($own.report | utf8bytelength), 500] | max) as $room
  | map(if is($own) then .report |= cut($room) else . end)
  | whole;

if startswith("<!-- ptmem:") then .[(index("\n") // length) + 1:] else . end
| split(begin) | join("<!-- ptmem section:")
| if $foreign then as_text else . end
| in_sections
| {body: .}

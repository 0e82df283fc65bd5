"""Prints turns of phrase at which a reader of technical English stops, in docs, comments and messages.

A hit is a place to read aloud, not always a fault. Sound phrases that a pattern also matches are in ALLOWED.
"""

import re
import subprocess
import sys

MARKERS = {
    "is not an X": r"\b(?:is|are|was|were|be) no (?!longer|more\b|less\b|such\b|way\b|need\b|one\b|matter\b|problem\b)\w+",
    "reports, says, shows": r"\b(?:tell|tells|told|telling)\b(?! (?:apart|you|git|cargo|us|users|it|them|which|whether|how)\b)",
    "is in, is at": (
        r"\b(?:stands?|lies?|lay|lain|stood)\b "
        r"(?:in|at|beside|below|above|behind|before|between|outside|inside|within|elsewhere|there|near|on|here|by)\b"
    ),
    "a noun instead of a chain": r"\b(?:of whose|of whom|of what is|of that which|of all that|all that)\b",
    "the X that": r"(?:^|[.;:,(] )[Ww]hat (?:is|are|was|has|have|stays|remains|leaks|comes|goes|changed|nobody|nothing)\b",
    "at or after, at least": r"\bno (?:earlier|later|fewer|smaller|larger|worse|better)\b",
    "a modern word": r"\b(?:lest|save for|none the less|thereof|therein|hereof|whereof|hereby|alike|anew|withal|forgone)\b",
    "compared with": r"\bheld (?:against|to)\b",
    "results, is": r"\b(?:comes? about|came about|became of|becomes of|makes? do|does without|do without)\b",
    "name who": r"\b(?:nobody|nothing that|nothing of|no one) (?:asks?|asked|counts?|needs?|knows?|reads?|states?|uses?)\b",
    "N, this many": r"\b(?:so many|so much)\b",
    "not one of them": r"\b[Nn]one (?:where|if|of it|is|are)\b",
    "only those": r"\b(?:it|those|these|that|which|one|all|them|part|history|figures?|names?|text) alone\b(?! time)",
    "otherwise, or": r"[,;] else\b(?! if)",
    "from 2.4, since 2.4": r"\bfrom (?:\S+ ){1,6}on[,.;)]",
    "by default": r"\b(?:unless told otherwise|if not told otherwise)\b",
    "as requested": r"\b(?:as (?:was )?asked|was asked for|were asked for|is asked for)\b",
    "at the corresponding place": r"\bwhere (?:it|the \w+) does the same\b",
    "residuals, distribution, x-values": r"\b(?:misses of|shares of a|places of a fit)\b",
}
ALLOWED = [
    r"[Tt]here (?:is|are) no \w+",  # "there is no GPU"
    r"\b[Nn]one if\b",  # of a function in Python
    r"\bnot alike\b",
    r"\bno earlier one\b",
    r"\ball that need only Rust\b",
    r"what was found, what was expected|what is exact and what is not",
    r"\bwhat (?:is|was) (?:said|saved|read|packed|known|allocated|copied)\b",
]
PATTERNS = {advice: re.compile(pattern) for advice, pattern in MARKERS.items()}
SOUND = re.compile("|".join(ALLOWED))


def prose(path, lines):
    """The numbers and texts of the lines of prose of a file: Markdown outside of code, comments, and longer strings."""
    in_code = False
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if path.endswith((".md", ".txt")):
            in_code ^= line.startswith("```")
            texts = [] if in_code else [line]
        else:
            comment = re.match(r"(?://[/!]?|#)\s(.*)", line)
            quoted = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
            texts = [comment[1]] if comment else [text for text in quoted if text.count(" ") >= 3]
        for text in texts:
            yield number, SOUND.sub("…", re.sub(r"`[^`]*`", "`x`", text))


def main():
    listed = subprocess.run(["git", "ls-files", "-z", *sys.argv[1:]], check=True, capture_output=True, text=True)
    hits = 0
    for path in filter(None, listed.stdout.split("\0")):
        if not path.endswith((".md", ".rs", ".py", ".sh", ".txt")) or path.startswith((".ci/", "tests/", "fixtures/")):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, text in prose(path, file.read().split("\n")):
                for advice, pattern in PATTERNS.items():
                    if pattern.search(text):
                        hits += 1
                        print(f"{path}:{number}: write '{advice}'? {text[:120]}")
    places = "1 place" if hits == 1 else f"{hits} places"
    print(f"{places} to read aloud; .ci/prose.py lists phrases that are allowed", file=sys.stderr)


main()

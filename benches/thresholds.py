#!/usr/bin/env python3
"""What changes if a number that decides is 20 % smaller or larger, for each row of a table in docs/architecture.md.

Copies the tree, lets each constant of that table be scaled by the environment in the copy, builds it once, and runs it
over the recordings of fixtures/ and other folders, parts and pairs of them. Integers are rounded away from their value.
A number that changes nothing so is tried at 0 (integers at 1) and at 1,000 times its value: if that changes nothing
either, no recording needs it.

    python3 benches/thresholds.py [target/thresholds [FOLDER ...]]
"""

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dumps

ROOT = Path(__file__).resolve().parent.parent
TUNED = """
/// A number, scaled where `PTMEM_TUNED` is `NAME=FACTOR`. `PTMEM_ASKED` is a file for the names that are asked.
pub fn tuned<T: Tune>(name: &'static str, value: T) -> T {
    use std::sync::{Mutex, OnceLock};
    static ASKED: Mutex<std::collections::BTreeSet<&str>> = Mutex::new(std::collections::BTreeSet::new());
    static WANTED: OnceLock<(Option<std::ffi::OsString>, String, f64)> = OnceLock::new();
    let (log, wanted, factor) = WANTED.get_or_init(|| {
        let text = std::env::var("PTMEM_TUNED").unwrap_or_default();
        let (name, factor) = text.split_once('=').unwrap_or(("", "1"));
        (std::env::var_os("PTMEM_ASKED"), name.to_owned(), factor.parse().unwrap())
    });
    if let Some(log) = log.as_ref().filter(|_| ASKED.lock().unwrap().insert(name)) {
        let mut log = std::fs::File::options().append(true).create(true).open(log).unwrap();
        std::io::Write::write_all(&mut log, format!("{name}\\n").as_bytes()).unwrap();
    }
    if name == wanted { value.scaled(*factor) } else { value }
}
pub trait Tune: Copy { fn scaled(self, factor: f64) -> Self; }
impl Tune for f64 { fn scaled(self, factor: f64) -> Self { self * factor } }
macro_rules! whole { ($($t:ty)*) => { $(impl Tune for $t { fn scaled(self, factor: f64) -> Self {
    let scaled = self as f64 * factor;
    if factor < 1.0 { scaled.floor().max(1.0) as Self } else { scaled.ceil() as Self }
} })* } }
whole!(u16 usize u64 i64 i128);
"""


def constants():
    """The constants of the table: their names there, and the files that define them."""
    page = (ROOT / "docs/architecture.md").read_text()
    rows = page.split("## Numbers that decide")[1].split("\n## ")[0]
    for name in re.findall(r"`((?:\w+::)+[A-Z_]+)`", "".join(re.findall(r"^\|([^|]*)\|", rows, re.M))):
        path, _, constant = name.rpartition("::")
        ends = tuple("/" + path.replace("::", "/") + end for end in (".rs", "/mod.rs"))
        files = [file for file in sources() if str(file).endswith(ends)]
        yield name, constant, next(file for file in files if f"const {constant}:" in file.read_text())


def sources():
    return [*ROOT.glob("src/**/*.rs"), *ROOT.glob("crates/*/src/**/*.rs")]


def tune(copy):
    """Lets the constants be scaled wherever the copy uses them: in the modules that see them."""
    for name, constant, file in constants():
        folder = file.parent if file.name == "mod.rs" else file.with_suffix("")
        if f"pub(super) const {constant}:" in file.read_text():
            folder = folder.parent
        is_public = f"pub const {constant}:" in file.read_text()
        users = sources() if is_public else [file, *folder.rglob("*.rs")]
        for user in {copy / path.relative_to(ROOT) for path in users if path.name != "tests.rs"}:
            text = user.read_text()
            if user == copy / file.relative_to(ROOT) or f"const {constant}:" not in text:
                # Comments, attributes, imports, messages and definitions stay.
                kept = rf"^\s*(?://|#).*|^\s*(?:pub )?use [^;]*;|const \w+: [^;]*;|\{{{constant}\}}"
                found = rf"({kept})|((?:\w+::)*\b{constant}\b)"
                text = re.sub(
                    found, lambda at, name=name: at[1] or f'ptmem_base::tuned("{name}", {at[2]})', text, flags=re.M
                )
                user.write_text(text)
    with (copy / "crates/base/src/lib.rs").open("a") as base:
        base.write(TUNED)


def build(work):
    copy = work / "tree"
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for file in files.splitlines():
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, copy / file)
    tune(copy)
    subprocess.run(
        ["cargo", "build", "--release", "--bin", "ptmem", "--target-dir", work.resolve() / "build"],
        cwd=copy,
        check=True,
    )
    return work / "build/release/ptmem"


def written(path, work):
    """Dumps of a recording after every twelfth of its events, and the last 70 % of it; none of a short one."""
    recording = dumps.load(path)
    traces = recording["device_traces"] if recording else []
    events = min((len(trace) for trace in traces if trace), default=0)
    longest = max(map(len, traces), default=0)
    windows = [(0, events * part // 12) for part in range(1, 13)] + [(events * 3 // 10, longest)]
    cuts = []
    for number, window in enumerate(windows if events > 100 else []):
        cut = dumps.part(recording, *window)
        if cut is None:
            return []
        cuts.append(work / f"{path.name}-{number}.pkl")
        cuts[-1].write_bytes(pickle.dumps(cut))
    return cuts


def commands(work, more):
    """Recordings alone, series of dumps, and pairs both ways: of a change, releases, programs, a whole and a part."""
    fixtures = ROOT / "fixtures"
    ends = ("*.pkl", "*.pickle", "*.zst", "*.pt")
    files = sorted(path for folder in (fixtures, *more) for end in ends for path in folder.rglob(end))
    folders = sorted({path.parent for path in files if path.parent.parent == fixtures and path.suffix == ".pkl"})
    pairs = [(path, Path(str(path).replace("before", "after"))) for path in [*files, *folders]]
    pairs = [(before, after) for before, after in pairs if before != after and after.exists()]
    pairs += [(fixtures / f"{before}.pkl", fixtures / "moved.pkl") for before in ("before", "after")]
    changes = list(pairs)
    # Two programs have little in common.
    pairs += zip(files, files[1:])
    releases = sorted(fixtures.glob("recorded/*.zst"))
    pairs += [pair for pair in zip(releases, releases[1:]) if len({path.name.rsplit("-", 1)[0] for path in pair}) == 1]
    yield from (["history", folder] for folder in folders)
    for path in [*files, *folders]:
        yield ["leak", path]
        yield ["check", path, "--max", "peak=1TiB", "--strict"]
        cuts = [] if path in folders else written(path, work)
        if cuts:
            yield ["doctor", path]
            yield ["leak", *cuts[:12]]
            yield ["history", *cuts[:12]]
            others = [other for pair in changes if path in pair for other in pair]
            pairs += [(whole, cut) for whole in dict.fromkeys([path, *others]) for cut in (cuts[7], cuts[12])]
    for before, after in pairs:
        for pair in ((before, after), (after, before)):
            yield ["diff", *pair, "--max-growth", "peak=5%", "--max-growth", "stack=5%"]


def told(ptmem, command, environment):
    """The exit code, and the output without digits."""
    form = [] if command[0] == "doctor" else ["--format", "json"]
    done = subprocess.run([ptmem, *command, *form], env={**os.environ, **environment}, capture_output=True, text=True)
    return done.returncode, re.sub(r"-?\d[\d.]*(e-?\d+)?", "0", done.stdout)


def try_factor(ptmem, name, factor, runs, usual):
    """Whether some runs say something else with a number that is scaled; prints how many."""
    now = [(run, *told(ptmem, run, {"PTMEM_TUNED": f"{name}={factor}"})) for run in runs]
    other = [(run, code) for run, code, text in now if (code, text) != usual[run]]
    verdicts = sum(code != usual[run][0] for run, code in other)
    print(f"  x{factor}: {len(other)} say something else, {verdicts} with another exit code", flush=True)
    for run, code in other[:5]:
        names = [Path(part).name for part in run[:4] if "=" not in str(part)]
        print(f"    {usual[run][0]} -> {code}:", *names, flush=True)
    return bool(other)


def main():
    work = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/thresholds").resolve()
    work.mkdir(parents=True, exist_ok=True)
    ptmem = build(work)
    log = work / "asked"
    usual, asked = {}, {}
    for command in map(tuple, commands(work, map(Path, sys.argv[2:]))):
        log.write_text("")
        usual[command] = told(ptmem, command, {"PTMEM_ASKED": str(log)})
        asked[command] = log.read_text().split()
    print(f"{len(usual)} runs", flush=True)
    for name, _, _ in constants():
        runs = [command for command in usual if name in asked[command]]
        print(f"{name}: asked in {len(runs)}", flush=True)
        for factors in (("0.8", "1.2"), ("0", "1000")):
            changes = [try_factor(ptmem, name, factor, runs, usual) for factor in factors]
            if any(changes):
                break


if __name__ == "__main__":
    main()

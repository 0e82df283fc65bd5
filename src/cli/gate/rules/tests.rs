//! Changes that loosen their own gate, in real repositories.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use super::*;

/// The running workflow of the tests.
const GATE: &str = ".github/workflows/gate.yml";

const WORKFLOW: &str = "\
on: pull_request
jobs:
  memory:
    steps:
      - uses: actions/checkout@v6
      - uses: ./.github/actions/record
      - uses: owner/ptmem@v0
        id: gate
        with:
          gates: train
";

const RULES: &str = "[max-growth]\npeak = \"5%\"\n[max]\n\"stack:layer\" = \"1GiB\"\n";

struct Repo {
    folder: TempDir,
}

impl Repo {
    /// A base, on which a change begins.
    fn new(files: &[(&str, &str)]) -> Self {
        let repo = Self { folder: tempfile::tempdir().unwrap() };
        repo.git(&["init", "--quiet", "--initial-branch", "main"]);
        let all = [
            (GATE, WORKFLOW),
            ("ptmem.toml", RULES),
            (".github/actions/record/action.yml", "runs: { steps: [{ run: make.sh }] }\n"),
        ];
        all.iter().chain(files).for_each(|(path, text)| repo.write(path, text));
        repo.base();
        repo
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.current_dir(self.folder.path()).args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.c",
            "-c",
            "protocol.file.allow=always",
        ]);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null").args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes what is there the base.
    fn base(&self) {
        self.commit();
        self.git(&["tag", "--force", "base"]);
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "files"]);
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.folder.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }

    fn rename(&self, from: &str, to: &str) {
        let bytes = fs::read(self.folder.path().join(from)).unwrap();
        self.remove(from);
        self.write(to, bytes);
    }

    #[cfg(unix)]
    fn link(&self, path: &str, target: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    /// Adds another repository, with a file, as a submodule.
    fn submodule(&self, path: &str, files: &[(&str, &str)]) {
        let other = Self { folder: tempfile::tempdir().unwrap() };
        other.git(&["init", "--quiet"]);
        files.iter().for_each(|(path, text)| other.write(path, text));
        other.commit();
        self.git(&["submodule", "--quiet", "add", "--force", &other.folder.path().display().to_string(), path]);
    }

    /// Commits what is there in a submodule.
    fn commit_in(&self, path: &str) {
        self.git(&["-C", path, "add", "--all"]);
        self.git(&[
            "-C",
            path,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.c",
            "commit",
            "--quiet",
            "--message",
            "more",
        ]);
    }

    fn edited_with(&self, befores: &[&str], workflow: Option<&str>) -> Vec<EditedFile> {
        let befores: Vec<String> = befores.iter().map(|before| (*before).to_owned()).collect();
        let change =
            RuleChange { root: self.folder.path(), base: "base", folder: "examples/train", workflow, named: &befores };
        edited(&change).unwrap()
    }

    /// What is told of the change, which is the same whether it is committed or not.
    #[track_caller]
    fn told(&self, befores: &[&str]) -> Vec<EditedFile> {
        // Of befores, files that git does not know are recordings and downloads.
        self.git(&["add", "--intent-to-add", "."]);
        let uncommitted = self.edited_with(befores, Some(GATE));
        self.commit();
        let committed = self.edited_with(befores, Some(GATE));
        assert!(
            uncommitted.iter().map(|edited| &edited.path).eq(committed.iter().map(|edited| &edited.path)),
            "{uncommitted:?} {committed:?}"
        );
        committed
    }

    /// The paths that are told, and how each is edited.
    #[track_caller]
    fn told_of(&self, befores: &[&str]) -> Vec<String> {
        self.told(befores).iter().map(words).collect()
    }
}

fn words(edited: &EditedFile) -> String {
    match &edited.edit {
        FileEdit::Changed => format!("changed {}", edited.path),
        FileEdit::Added => format!("added {}", edited.path),
        FileEdit::Removed => format!("removed {}", edited.path),
        FileEdit::Renamed(from) => format!("renamed {from} {}", edited.path),
        FileEdit::Unreadable(_) => format!("unreadable {}", edited.path),
    }
}

/// Each edits the running workflow, whose diff shows the line. A reader of YAML took all of them for the same or for labels.
#[test]
fn every_edit_of_the_running_workflow_is_shown() {
    let step = "      - uses: ./.github/actions/record\n";
    for (from, to, line) in [
        ("gates: train", "gates: 'train '", "+          gates: 'train '"),
        ("id: gate", "id: other", "+        id: other"),
        // A snapshot that is committed is compared before the recording.
        (step, "", "-      - uses: ./.github/actions/record"),
        ("    steps:\n", "    continue-on-error: true\n    steps:\n", "+    continue-on-error: true"),
        ("      - uses: owner", "       - uses: owner", "+       - uses: owner/ptmem@v0"),
        ("with:\n", "with:\u{a0}\n", "+        with:\u{a0}"),
        ("with:\n          gates: train", "with: { gates: train }", "+        with: { gates: train }"),
        ("@v0", "@v1", "+      - uses: owner/ptmem@v1"),
        ("on: pull_request", "on: { pull_request: { branches: [x] } }", "+on: { pull_request: { branches: [x] } }"),
        ("jobs:", "# a comment\njobs:", "+# a comment"),
        ("jobs:", "env: &a { A: b }\njobs:", "+env: &a { A: b }"),
        (
            "gates: train\n",
            "gates: train\u{2028}          args: --exit-zero\n",
            "+          gates: train\\u{2028}          args: --exit-zero",
        ),
    ] {
        let repo = Repo::new(&[]);
        repo.write(GATE, WORKFLOW.replace(from, to));
        let told = repo.told(&[]);
        assert_eq!(told.iter().map(words).collect::<Vec<_>>(), [format!("changed {GATE}")], "{to}");
        assert!(told[0].diff.contains(&line.to_owned()), "{line}: {:?}", told[0].diff);
    }
}

#[test]
fn every_configuration_up_to_the_root_is_shown() {
    let looser = RULES.replace("5%", "50%");
    let repo = Repo::new(&[]);
    repo.write("ptmem.toml", &looser);
    assert_eq!(repo.told(&[])[0].diff[..4], ["@@ -1,4 +1,4 @@", " [max-growth]", "-peak = \"5%\"", "+peak = \"50%\""]);
    // A function that is renamed together with its maximum.
    repo.write("ptmem.toml", RULES.replace("stack:layer\" = \"1GiB", "stack:layers\" = \"9GiB"));
    assert_eq!(repo.told_of(&[]), ["changed ptmem.toml"]);
    for (path, words) in [
        ("examples/ptmem.toml", "added"),
        ("examples/train/ptmem.toml", "added"),
        (".github/ptmem.toml", "added"),
        ("examples/train/.github/PTMEM.toml", "added"),
    ] {
        let repo = Repo::new(&[]);
        repo.write(path, &looser);
        assert_eq!(repo.told_of(&[]), [format!("{words} {path}")]);
    }
    let repo = Repo::new(&[]);
    repo.remove("ptmem.toml");
    assert_eq!(repo.told_of(&[]), ["removed ptmem.toml"]);
    let repo = Repo::new(&[]);
    repo.rename("ptmem.toml", ".github/ptmem.toml");
    assert_eq!(repo.told_of(&[]), ["renamed ptmem.toml .github/ptmem.toml"]);
    // One that git ignores counts, too.
    let repo = Repo::new(&[(".gitignore", "examples/ptmem.toml\n")]);
    repo.write("examples/ptmem.toml", &looser);
    let told = repo.edited_with(&[], Some(GATE));
    assert_eq!(told.iter().map(words).collect::<Vec<_>>(), ["added examples/ptmem.toml"]);
}

#[test]
fn what_the_workflow_reaches_by_name_is_shown_in_turn_and_nothing_else() {
    let files = [
        (".github/scripts/make.sh", "python .github/data/steps.txt\n"),
        (".github/data/steps.txt", "3\n"),
        (".github/scripts/others/x.sh", ""),
        (".github/workflows/test.yml", "jobs: {}\n"),
        (".github/workflows/reusable.yml", "jobs: {}\n"),
        (".github/actions/other/action.yml", "runs: {}\n"),
        (".github/dependabot.yml", "version: 2\n"),
        ("ci/special/action.yml", "runs: {}\n"),
        ("train.py", ""),
    ];
    for (path, is_reached) in [
        (".github/actions/record/action.yml", true),
        (".github/scripts/make.sh", true),
        (".github/data/steps.txt", true),
        (".github/scripts/others/x.sh", false),
        (".github/workflows/test.yml", false),
        (".github/workflows/reusable.yml", false),
        (".github/actions/other/action.yml", false),
        (".github/dependabot.yml", false),
        ("ci/special/action.yml", false),
        ("train.py", false),
    ] {
        let repo = Repo::new(&files);
        repo.write(path, "another\n");
        let expected = if is_reached { vec![format!("changed {path}")] } else { Vec::new() };
        assert_eq!(repo.told_of(&[]), expected, "{path}");
    }
    // What only the base or only the change names.
    for line in [
        "    uses: ./.github/workflows/reusable.yml\n",
        "    uses: ./.github/actions/other\n",
        "    uses: ./ci/special\n",
    ] {
        let path = line.trim().trim_start_matches("uses: ./");
        let path = if path.ends_with("yml") { path.to_owned() } else { format!("{path}/action.yml") };
        let without = Repo::new(&files);
        without.write(GATE, format!("{WORKFLOW}{line}"));
        without.write(&path, "another\n");
        let with = Repo::new(&files);
        with.write(GATE, format!("{WORKFLOW}{line}"));
        with.base();
        with.write(GATE, WORKFLOW);
        with.write(&path, "another\n");
        let mut expected = [format!("changed {path}"), format!("changed {GATE}")];
        expected.sort();
        assert_eq!(without.told_of(&[]), expected);
        assert_eq!(with.told_of(&[]), expected);
    }
    // Without a known workflow, all of them.
    let repo = Repo::new(&files);
    repo.write(".github/workflows/test.yml", "another\n");
    for workflow in [None, Some(".github/workflows/elsewhere.yml")] {
        assert_eq!(
            repo.edited_with(&[], workflow).iter().map(words).collect::<Vec<_>>(),
            ["changed .github/workflows/test.yml"]
        );
    }
}

#[test]
fn stored_befores_are_shown_however_they_are_named() {
    let files = [
        ("base/golden.json", "{\"train\": 1}\n"),
        ("base/rank0.json", "0\n"),
        ("base/rank1.json", "1\n"),
        ("base/notes.txt", "\n"),
    ];
    for befores in
        [&["base/golden.json#train"][..], &["base/../base/./golden.json"], &["base"], &["base/g*.json"], &["**/*.json"]]
    {
        let repo = Repo::new(&files);
        repo.write("base/golden.json", "{\"train\": 2}\n");
        let told = repo.told(befores);
        assert_eq!(told.iter().map(words).collect::<Vec<_>>(), ["changed base/golden.json"], "{befores:?}");
        assert_eq!(told[0].diff[1..], ["-{\"train\": 1}", "+{\"train\": 2}"]);
    }
    let repo = Repo::new(&files);
    repo.remove("base/rank1.json");
    repo.write("base/rank2.json", "2\n");
    repo.write("base/notes.txt", "x\n");
    assert_eq!(repo.told_of(&["base/rank*.json"]), ["removed base/rank1.json", "added base/rank2.json"]);
    let repo = Repo::new(&files);
    repo.rename("base/rank1.json", "base/rank7.json");
    assert_eq!(repo.told_of(&["base"]), ["renamed base/rank1.json base/rank7.json"]);
    // A file whose name is like that of a case, and a figure that rises with a reason that was copied.
    let repo = Repo::new(&[("a#b.json", "{\"raises\": []}\n"), ("large.json", &"x\n".repeat(3 << 20))]);
    repo.write("a#b.json", "{\"raises\": [{\"reason\": \"\"}]}\n");
    repo.write("large.json", "y\n".repeat(3 << 20));
    let told = repo.told(&["a#b.json", "large.json"]);
    assert_eq!(told.iter().map(words).collect::<Vec<_>>(), ["changed a#b.json", "changed large.json"]);
    assert!(told[1].diff[1].starts_with("-6,291,456 bytes (object "), "{:?}", told[1].diff);
}

/// What a step of the job downloads or records is no edit of the change; nor is what git itself writes otherwise.
#[test]
fn files_that_the_change_does_not_edit_are_not_shown() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    let repo = Repo::new(&[("base/large.pkl", pointer), ("base/lines.json", "1\n2\n")]);
    repo.write("base/downloaded.json", "1\n");
    repo.write("base/large.pkl", "nine byte");
    repo.write("base/lines.json", "1\r\n2\r\n");
    repo.write("ptmem.toml", RULES.replace('\n', "\r\n"));
    assert_eq!(repo.edited_with(&["base", "base/downloaded.json"], Some(GATE)), []);
    repo.write("base/large.pkl", "ten bytes.");
    assert_eq!(repo.edited_with(&["base"], Some(GATE)).len(), 1);
    // A sparse checkout has none of them.
    repo.git(&["reset", "--quiet", "--hard"]);
    repo.git(&["sparse-checkout", "set", "--no-cone", "/examples/"]);
    assert!(!repo.folder.path().join("ptmem.toml").exists());
    assert_eq!(repo.edited_with(&["base"], Some(GATE)), []);
}

#[test]
#[cfg(unix)]
fn links_are_followed_at_both_commits() {
    let files = [
        ("conf/limits.toml", RULES),
        ("conf/looser.toml", "\n"),
        ("ci/record/action.yml", "runs: {}\n"),
        ("stored/a.json", "1\n"),
    ];
    // A link takes the place of a file, leads elsewhere, or leads to what is edited.
    let repo = Repo::new(&files);
    repo.link("ptmem.toml", "conf/looser.toml");
    let told = repo.told(&[]);
    assert_eq!(words(&told[0]), "changed ptmem.toml");
    assert!(told[0].diff.contains(&"+link to conf/looser.toml".to_owned()), "{told:?}");
    repo.base();
    repo.write("conf/looser.toml", "# none\n");
    assert_eq!(repo.told_of(&[]), ["changed conf/looser.toml"]);
    repo.base();
    repo.link("ptmem.toml", "./conf/limits.toml");
    assert_eq!(repo.told_of(&[]), ["changed ptmem.toml"]);

    let repo = Repo::new(&files);
    repo.remove(".github/actions/record");
    repo.link(".github/actions/record", "../../ci/record");
    repo.link("befores", "stored");
    repo.link("one", "befores/a.json");
    repo.base();
    repo.write("ci/record/action.yml", "runs: { steps: [] }\n");
    repo.write("stored/a.json", "2\n");
    assert_eq!(repo.told_of(&["befores"]), ["changed ci/record/action.yml", "changed stored/a.json"]);
    assert_eq!(repo.told_of(&["one#train"]), ["changed ci/record/action.yml", "changed stored/a.json"]);

    // What leads out of the repository, or to itself, is not the change's to show: it counts as edited.
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("ptmem.toml"), RULES).unwrap();
    for target in [
        outside.path().join("ptmem.toml").to_str().unwrap(),
        "../elsewhere.toml",
        "conf/../../x/ptmem.toml",
        "ptmem.toml",
    ] {
        let repo = Repo::new(&files);
        repo.link("ptmem.toml", target);
        repo.base();
        assert_eq!(repo.told_of(&[]), ["unreadable ptmem.toml"], "{target}");
    }
    // One that nothing reaches is no news.
    let repo = Repo::new(&files);
    repo.link(".github/unrelated/zzz", "/elsewhere");
    assert_eq!(repo.told_of(&[]), [""; 0]);
}

#[test]
fn submodules_are_followed_at_both_commits() {
    let repo = Repo::new(&[]);
    repo.submodule("stored", &[("golden.json", "1\n"), ("other.json", "1\n")]);
    repo.base();
    for befores in [["stored/golden.json#train"], ["stored/g*.json"]] {
        repo.write("stored/golden.json", "2\n");
        repo.commit_in("stored");
        assert_eq!(repo.told_of(&befores), ["changed stored/golden.json"]);
        repo.base();
        repo.write("stored/golden.json", "1\n");
        repo.commit_in("stored");
        repo.commit();
        repo.base();
    }
    repo.write("stored/other.json", "2\n");
    repo.commit_in("stored");
    assert_eq!(repo.told_of(&["stored/golden.json"]), [""; 0]);
    // One that is not here.
    repo.git(&["submodule", "--quiet", "deinit", "--force", "stored"]);
    assert_eq!(repo.told_of(&["stored/golden.json"]), ["unreadable stored"]);
    // A folder that becomes one, with the same files and with others.
    let action = fs::read_to_string(repo.folder.path().join(".github/actions/record/action.yml")).unwrap();
    for (text, expected) in [
        (&*action, vec!["added .github/actions/record"]),
        ("x\n", vec!["added .github/actions/record", "changed .github/actions/record/action.yml"]),
    ] {
        let repo = Repo::new(&[]);
        repo.git(&["rm", "-r", "--quiet", ".github/actions/record"]);
        repo.submodule(".github/actions/record", &[("action.yml", text)]);
        assert_eq!(repo.told_of(&[]), expected);
    }
}

#[test]
#[cfg(unix)]
fn links_in_submodules_are_followed() {
    let repo = Repo::new(&[("first.json", "1\n"), ("second.json", "2\n")]);
    repo.submodule("stored", &[("rules.toml", RULES)]);
    repo.link("stored/golden.json", "../first.json");
    repo.commit_in("stored");
    repo.base();
    repo.link("stored/golden.json", "../second.json");
    repo.commit_in("stored");
    assert_eq!(repo.told_of(&["stored/golden.json"]), ["changed stored/golden.json"]);
    repo.base();
    repo.write("second.json", "3\n");
    assert_eq!(repo.told_of(&["stored/golden.json"]), ["changed second.json"]);
}

/// No text names a file whose name it cannot have: it counts as reached. What may be printed of the name is printed.
#[test]
#[cfg(unix)]
fn names_of_any_bytes_are_compared() {
    use std::os::unix::ffi::OsStrExt;
    for (name, shown) in [(&b"a\nb.sh"[..], "a\\nb.sh"), (b"a\tb.sh", "a\\tb.sh"), (b"\xff.sh", "\u{fffd}.sh")] {
        let repo = Repo::new(&[]);
        for folder in [".github/x", "base"] {
            let path = repo.folder.path().join(folder).join(std::ffi::OsStr::from_bytes(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "1\n").unwrap();
        }
        repo.base();
        assert_eq!(repo.told_of(&["base"]), [""; 0]);
        for folder in [".github/x", "base"] {
            fs::write(repo.folder.path().join(folder).join(std::ffi::OsStr::from_bytes(name)), "2\n").unwrap();
        }
        assert_eq!(repo.told_of(&["base"]), [format!("changed .github/x/{shown}"), format!("changed base/{shown}")]);
    }
}

/// The keys that the schema of the configuration knows.
fn keys() -> BTreeSet<String> {
    let schema =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/ptmem.toml.schema.json")).unwrap();
    let mut left = vec![serde_json::from_str::<Value>(&schema).unwrap()];
    let mut keys = BTreeSet::new();
    while let Some(value) = left.pop() {
        match value {
            Value::Object(object) => {
                keys.extend(
                    object.get("properties").and_then(Value::as_object).into_iter().flat_map(|of| of.keys().cloned()),
                );
                left.extend(object.into_iter().map(|(_, value)| value));
            }
            Value::Array(items) => left.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    keys
}

#[test]
fn an_edit_of_any_key_is_shown_with_its_line() {
    let repo = Repo::new(&[]);
    let keys = keys();
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        repo.write("ptmem.toml", format!("{RULES}{key} = 1\n"));
        let told = repo.edited_with(&[], Some(GATE));
        assert!(told.len() == 1 && told[0].diff.contains(&format!("+{key} = 1")), "{key}: {told:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a change does to files that the gate reads is shown, and what it does to others is not.
    #[test]
    fn random_edits_are_shown(edits in proptest::collection::btree_map(0..6_usize, prop_oneof![Just(None), any::<Vec<u8>>().prop_map(Some)], 0..4)) {
        let paths = [GATE, "ptmem.toml", ".github/actions/record/action.yml", "base/a.json", "train.py", ".github/workflows/test.yml"];
        let repo = Repo::new(&[("base/a.json", "1\n"), ("train.py", "\n"), (".github/workflows/test.yml", "jobs: {}\n")]);
        let text_of = |path: &str| fs::read(repo.folder.path().join(path)).unwrap_or_default();
        let before = paths.map(text_of);
        for (at, bytes) in &edits {
            match bytes {
                Some(bytes) => repo.write(paths[*at], bytes),
                None => repo.remove(paths[*at]),
            }
        }
        repo.commit();
        let told: BTreeSet<String> = repo.edited_with(&["base"], Some(GATE)).into_iter().map(|edited| edited.path).collect();
        let edited = edits.iter().filter(|(at, bytes)| **at < 4 && bytes.as_ref() != Some(&before[**at]));
        let edited: BTreeSet<String> = edited.map(|(at, _)| paths[*at].to_owned()).collect();
        prop_assert_eq!(told, edited);
    }
}

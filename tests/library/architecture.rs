//! `docs/architecture.md` against the code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: &str = include_str!("../../docs/architecture.md");

/// The cells of the first columns of the table that begins with a row.
fn table(head: &str) -> Vec<Vec<&'static str>> {
    let rows = PAGE.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// The names in backticks of a cell.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The Rust files below a folder, with their texts.
fn sources(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
    found
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The modules that a line names from the root of a crate: `crate::{diff, leak}` or `ptmem_compare::diff`.
fn imported(line: &str) -> Vec<&str> {
    let others = line.split("ptmem_").skip(1).filter_map(|path| path.split_once("::")).map(|(_, path)| path);
    let paths = line.split("crate::").skip(1).chain(others).flat_map(|path| match path.strip_prefix('{') {
        Some(group) => group.split(['}', ';']).next().unwrap_or_default().split(", ").collect(),
        None => vec![path],
    });
    paths
        .map(|path| path.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or(""))
        .collect()
}

#[test]
fn no_stage_imports_one_that_follows_it() {
    let stages: Vec<&str> = table("| stage |").iter().flat_map(|row| names(row[0])).collect();
    let mut seen = 0;
    // The crate of reports is one stage; what it imports, the compiler holds.
    let crates = ["snapshot", "trace", "compare", "judge"].map(|name| format!("crates/{name}/src"));
    for folder in ["src".to_owned()].into_iter().chain(crates).map(|folder| root().join(folder)) {
        for (path, text) in sources(&folder) {
            let module =
                path.strip_prefix(&folder).unwrap().iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
            if ["cli", "leaves", "lib", "main", "gate", "launch"].contains(&module) || path.ends_with("tests.rs") {
                continue;
            }
            let place = stages.iter().position(|stage| *stage == module);
            let place = place.unwrap_or_else(|| panic!("{module} is missing in docs/architecture.md"));
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for name in imported(line) {
                    let other = stages.iter().position(|stage| *stage == name);
                    assert!(other.is_none_or(|other| other <= place), "{}: {line}", path.display());
                    seen += usize::from(other.is_some());
                }
            }
        }
    }
    assert!(seen > 250, "{seen} imports");
}

/// A leaf goes with its folder and its two lines in the list: nothing else names its module.
/// The name that a line declares, if it declares a type.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(public) if public.starts_with('(') => public.split_once(") ")?.1,
        Some(public) => public.trim_start(),
        None => line,
    };
    let name = ["struct ", "enum ", "trait "].iter().find_map(|word| line.strip_prefix(word))?;
    name.split(|letter: char| !letter.is_alphanumeric()).next().filter(|name| name.starts_with(char::is_uppercase))
}

/// Types that `ptmem simulate` and its library both declare, as they are built apart, and one that each system has for itself.
const IN_TWO_PLACES: [&str; 6] = ["Addresses", "AnswerKind", "Events", "Running", "Settings", "Unsupported"];

#[test]
fn every_type_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for folder in ["src", "crates"] {
        for (path, text) in sources(&root().join(folder)) {
            for name in text.lines().filter_map(declared) {
                places.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    assert!(places.len() > 900, "{}", places.len());
    places.retain(|_, places| places.len() > 1);
    let repeated: Vec<&str> = places.keys().map(String::as_str).collect();
    assert_eq!(repeated, IN_TWO_PLACES, "{places:#?}");
}

#[test]
fn a_leaf_is_named_by_its_folder_and_two_lines_alone() {
    let folders = std::fs::read_dir(root().join("src/leaves")).unwrap().map(|entry| entry.unwrap().path());
    for leaf in folders.filter(|path| path.is_dir()) {
        let module = leaf.file_name().unwrap().to_str().unwrap();
        let list = std::fs::read_to_string(root().join("src/leaves/mod.rs")).unwrap();
        assert_eq!(list.matches(module).count(), 2, "{module}: its module, and its command");
        let names = ["leaves::", "super::"].map(|parent| format!("{parent}{module}::"));
        for (path, text) in sources(&root().join("src")).into_iter().filter(|(path, _)| !path.starts_with(&leaf)) {
            assert!(!names.iter().any(|name| text.contains(name)), "{} names {module}", path.display());
        }
    }
}

/// Copies the files that git knows below a folder of the repository.
fn copy(folder: &str, to: &Path) {
    let listed = Command::new("git").args(["ls-files", "-z", folder]).current_dir(root()).output().unwrap();
    for file in String::from_utf8(listed.stdout).unwrap().split_terminator('\0') {
        let copy = to.join(file);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(root().join(file), copy).unwrap();
    }
}

/// The list of leaves without the lines of one, and without their conditions.
fn list_without(module: &str) -> String {
    let list = std::fs::read_to_string(root().join("src/leaves/mod.rs")).unwrap();
    let mut kept: Vec<&str> = Vec::new();
    for line in list.lines() {
        let is_of_leaf =
            [format!("mod {module};"), format!("{module}: ")].iter().any(|own| line.trim().starts_with(own));
        match is_of_leaf {
            true if kept.last().is_some_and(|before| before.trim().starts_with("#[cfg")) => _ = kept.pop(),
            true => {}
            false => kept.push(line),
        }
    }
    kept.join("\n") + "\n"
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn each_leaf_can_exhaustively_be_deleted() {
    let repository = tempfile::tempdir().unwrap();
    copy(".", repository.path());
    let leaves = std::fs::read_dir(root().join("src/leaves")).unwrap().map(|entry| entry.unwrap().path());
    for leaf in leaves.filter(|path| path.is_dir()) {
        let module = leaf.file_name().unwrap().to_str().unwrap();
        let folder = format!("src/leaves/{module}");
        std::fs::remove_dir_all(repository.path().join(&folder)).unwrap();
        std::fs::write(repository.path().join("src/leaves/mod.rs"), list_without(module)).unwrap();
        let mut check = Command::new(env!("CARGO"));
        // What the crate depends on is checked there already.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        check.args(["check", "--quiet", "--bin", "ptmem", "--target-dir"]).arg(target).current_dir(repository.path());
        let checked = check.output().unwrap();
        assert!(checked.status.success(), "without {module}: {}", String::from_utf8_lossy(&checked.stderr));
        copy(&folder, repository.path());
    }
}

#[test]
fn no_command_leaves_the_working_directory() {
    // Paths of the command line begin there, until the end of a run.
    let sources = sources(&root().join("src"));
    let leaving = sources.iter().filter(|(_, text)| text.contains("set_current_dir"));
    assert_eq!(leaving.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<&PathBuf>::new());
}

/// A number as the table writes it: `1 << 20` is 1 MiB there, 16_384 is 16,384, and 0.75 may be 75 %.
fn written(value: &str) -> Vec<String> {
    let value = value.replace('_', "");
    if let Some((factor, bits)) = value.split_once(" << ") {
        let unit = BTreeMap::from([("20", "MiB"), ("30", "GiB")]);
        return vec![format!("{factor} {}", unit[bits])];
    }
    let number: f64 = value.parse().unwrap();
    let grouped = if number >= 10_000.0 {
        format!("{},{:03}", (number / 1000.0).floor(), number % 1000.0)
    } else {
        number.to_string()
    };
    vec![grouped, format!("{} %", number * 100.0)]
}

#[test]
fn the_numbers_that_decide_are_those_of_the_code() {
    let sources: BTreeMap<_, _> = ["src", "crates"].iter().flat_map(|folder| sources(&root().join(folder))).collect();
    let mut count = 0;
    for row in table("| number |") {
        for name in names(row[0]) {
            let (module, constant) = name.rsplit_once("::").unwrap_or_else(|| panic!("{name} has no module"));
            let module = module.replace("::", "/");
            let defined = sources.iter().find_map(|(path, text)| {
                let ends = [format!("{module}.rs"), format!("{module}/mod.rs")];
                let text = text.split_once(&format!("const {constant}: "))?;
                ends.iter().any(|end| path.ends_with(end)).then_some(text)
            });
            let (above, text) = defined.unwrap_or_else(|| panic!("{name} is not defined"));
            let comment =
                above.rsplit("\n\n").next().unwrap().replace('\n', " ").replace(" /// ", " ").replace(" // ", " ");
            assert!(comment.contains("Needed for"), "{name} does not name a recording: {comment}");
            let value = text.split(['=', ';']).nth(1).unwrap();
            let texts = written(value.trim());
            assert!(texts.iter().any(|text| row[1].contains(text)), "{name}: {texts:?} are not in '{}'", row[1]);
            count += 1;
        }
    }
    assert!((25..=40).contains(&count), "{count} numbers");
}

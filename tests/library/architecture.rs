//! `docs/architecture.md` against the code.

use std::collections::{BTreeMap, BTreeSet};
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
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
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

/// The paths of a `use` tree: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn paths_of(tree: &str) -> Vec<String> {
    let Some((head, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let (mut depth, mut items) = (0_i32, vec![String::new()]);
    for letter in rest.trim_end().trim_end_matches('}').chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match letter {
            ',' if depth == 0 => items.push(String::new()),
            letter => items.last_mut().unwrap().push(letter),
        }
    }
    let items = items.iter().filter(|item| !item.trim().is_empty());
    items.flat_map(|item| paths_of(item)).map(|path| head.trim().to_owned() + &path).collect()
}

/// The module that a path in a module leads to, and the name there that follows; `None` outside of the crate.
fn resolved<'p>(path: &'p str, from: &str, modules: &BTreeMap<String, String>) -> Option<(String, &'p str)> {
    let child = |module: &str, name: &str| format!("{module}::{name}").trim_start_matches(':').to_owned();
    let mut parts = path.split("::").peekable();
    let mut module = match parts.peek()? {
        &"crate" => parts.next().map(|_| String::new())?,
        &"self" => parts.next().map(|_| from.to_owned())?,
        &"super" => from.to_owned(),
        first => Some(from.to_owned()).filter(|from| modules.contains_key(&child(from, first)))?,
    };
    while parts.next_if_eq(&"super").is_some() {
        module = module.rsplit_once("::").map(|(parent, _)| parent.to_owned()).unwrap_or_default();
    }
    while let Some(name) = parts.next_if(|name| modules.contains_key(&child(&module, name))) {
        module = child(&module, name);
    }
    Some((module, parts.next().unwrap_or("")))
}

/// What a module names: the paths that its code imports or writes, and the names that it exports, each with its path.
fn named(code: &str) -> (Vec<String>, BTreeMap<String, String>) {
    let (mut used, mut exported, mut body) = (Vec::new(), BTreeMap::new(), String::new());
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap().lines().map(str::trim);
    let code = code.filter(|line| !line.starts_with("#[")).map(|line| line.split("//").next().unwrap());
    // `pub(in crate::x)` uses nothing of `x`.
    for item in code.collect::<Vec<_>>().join(" ").replace("(in crate", "(in").split(';').map(str::trim) {
        let public = item.strip_prefix("pub").filter(|rest| rest.starts_with([' ', '(']));
        let rest = public.and_then(|rest| rest.split_once(' ')).map_or(item, |(_, rest)| rest);
        if let Some(tree) = rest.strip_prefix("use ") {
            for path in paths_of(tree) {
                let (path, name) = path.split_once(" as ").unwrap_or((&path, path.rsplit("::").next().unwrap()));
                match public {
                    Some(_) => _ = exported.insert(name.to_owned(), path.to_owned()),
                    None => used.push(path.to_owned()),
                }
            }
        } else if !rest.starts_with("mod ") || rest.contains('{') {
            body.extend([" ", item]);
        }
    }
    let paths = body.split(|letter: char| !letter.is_alphanumeric() && !"_:".contains(letter));
    used.extend(paths.filter(|path| path.contains("::") && !path.starts_with(':')).map(str::to_owned));
    // A re-export is a use only where the module writes its name.
    let words = body.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    used.extend(words.filter_map(|word| exported.get(word)).cloned());
    (used, exported)
}

/// The circles of more than three modules, of those whose code is given.
fn large_circles(modules: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    let named: BTreeMap<&String, _> = modules.iter().map(|(module, code)| (module, named(code))).collect();
    let mut reached: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
    for (&module, (used, _)) in &named {
        let ends = used.iter().filter_map(|path| {
            let (mut end, mut name) = resolved(path, module, modules)?;
            // Follows re-exports.
            while let Some(next) = named[&end].1.get(name).and_then(|path| resolved(path, &end, modules)) {
                (end, name) = next;
            }
            Some(end)
        });
        reached.insert(module, ends.collect());
    }
    for through in modules.keys() {
        let further = reached[through].clone();
        reached.values_mut().filter(|ends| ends.contains(through)).for_each(|ends| ends.extend(further.clone()));
    }
    let circle = |module: &String| {
        let ends = reached[module].iter().filter(|end| reached[end].contains(module));
        ends.cloned().collect::<Vec<_>>()
    };
    modules.keys().map(circle).filter(|circle| circle.len() > 3).collect::<BTreeSet<_>>().into_iter().collect()
}

#[test]
fn no_more_than_three_files_form_a_circle() {
    let ring = [("a", "use super::b::B;"), ("b", "use crate::{x, c::{self, C}};"), ("c", "use crate::D;")];
    let rest = [("d", "fn d(_: crate::a::A) {}"), ("", "pub use d::D;")];
    let ring = ring.into_iter().chain(rest).map(|(name, code)| (name.to_owned(), code.to_owned())).collect();
    assert_eq!(large_circles(&ring), [["a", "b", "c", "d"]]);
    let mut arrows = 0;
    let crates = std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in crates.chain([root(), root().join("crates/simulate/library")]).map(|folder| folder.join("src")) {
        let mut modules: BTreeMap<String, String> = BTreeMap::new();
        for (path, text) in sources(&folder) {
            let path = path.strip_prefix(&folder).unwrap().with_extension("");
            // Tests inside a module are left out, too.
            if path.parent().is_some_and(|folder| folder.ends_with("tests")) {
                continue;
            }
            let parts = path.iter().map(|part| part.to_str().unwrap());
            let parts: Vec<&str> = parts.filter(|part| !["mod", "lib", "main"].contains(part)).collect();
            modules.entry(parts.join("::")).or_default().push_str(&text);
        }
        assert_eq!(large_circles(&modules), Vec::<Vec<String>>::new(), "{}", folder.display());
        for (module, code) in &modules {
            arrows += named(code).0.iter().filter(|path| resolved(path, module, &modules).is_some()).count();
        }
    }
    assert!(arrows > 3_000, "{arrows} uses of another module");
}

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

/// A leaf goes with its folder and its two lines in the list: nothing else names its module.
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

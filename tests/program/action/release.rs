//! The archives of a release, named and packed as the workflow does: what looks for them finds them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{VERSION, root, skipped};

/// A 7z that lists what it would pack.
const PACKER: &str = "#!/bin/sh\n[ \"$1\" = a ] && tar -czf \"$2\" \"$3\"\n";

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The script of a step of build.yml.
fn script(step: &str) -> String {
    let workflow = read(".github/workflows/build.yml");
    let (_, rest) = workflow.split_once(&format!("      - name: {step}\n        run: |\n")).unwrap();
    rest.lines().map_while(|line| line.strip_prefix("          ")).map(|line| format!("{line}\n")).collect()
}

/// The targets of a release.
fn targets() -> Vec<String> {
    let workflow = read(".github/workflows/build.yml");
    workflow.lines().filter_map(|line| line.strip_prefix("            target: ")).map(str::to_owned).collect()
}

/// The archive that the workflow packs for a target, and the paths within.
fn packed(target: &str) -> (String, Vec<String>) {
    let place = tempfile::tempdir().unwrap();
    let is_windows = target.contains("windows");
    let program = if is_windows { "ptmem.exe" } else { "ptmem" };
    let built = place.path().join("target").join(target).join("dist");
    fs::create_dir_all(&built).unwrap();
    fs::create_dir(place.path().join("bin")).unwrap();
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md", "Cargo.toml"] {
        fs::copy(root().join(file), place.path().join(file)).unwrap();
    }
    fs::write(built.join(program), "").unwrap();
    run(place.path(), &format!("cat > bin/7z <<'END'\n{PACKER}END\nchmod +x bin/7z"));
    // What one step writes into the file of variables, the next one has.
    let steps = format!(
        "export PATH=\"$PWD/bin:$PATH\" TARGET={target} RUNNER_OS={} GITHUB_ENV=\"$PWD/variables\"\n\
         ({})\n. ./variables\n({})\ntar -tzf archives/ptmem-*[pz] > paths",
        if is_windows { "Windows" } else { "other" },
        script("Name the archive"),
        script("Pack the archive"),
    );
    run(place.path(), &steps);
    let archives = fs::read_dir(place.path().join("archives")).unwrap();
    let mut names: Vec<String> = archives.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names[1..], [format!("{}.sha256", names[0])], "{names:?}");
    let paths = fs::read_to_string(place.path().join("paths")).unwrap();
    (names.remove(0), paths.lines().map(str::to_owned).collect())
}

fn run(folder: &Path, script: &str) {
    let output = Command::new("bash").args(["-euc", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn cargo_binstall_finds_the_program_in_the_archives_of_a_release() {
    if skipped() {
        return;
    }
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let settings = &manifest["package"]["metadata"]["binstall"];
    let targets = targets();
    assert_eq!(targets.len(), 5, "{targets:?}");
    for target in targets {
        let own = settings["overrides"].get(&*target).and_then(|own| own.get("pkg-fmt"));
        let (end, suffix) = match own.unwrap_or(&settings["pkg-fmt"]).as_str().unwrap() {
            "tgz" => (".tar.gz", ""),
            "zip" => (".zip", ".exe"),
            other => panic!("{other}"),
        };
        let filled = |key: &str| {
            let values =
                [("repo", "R"), ("version", VERSION), ("target", &target), ("bin", "ptmem"), ("binary-ext", suffix)];
            let all = values.into_iter().chain([("archive-suffix", end)]);
            all.fold(settings[key].as_str().unwrap().to_owned(), |text, (name, value)| {
                text.replace(&format!("{{ {name} }}"), value)
            })
        };
        let (archive, paths) = packed(&target);
        assert_eq!(filled("pkg-url"), format!("R/releases/download/v{VERSION}/{archive}"));
        let program = filled("bin-dir");
        assert!(paths.contains(&program), "{program}: {paths:?}");
    }
}

#[test]
fn the_action_downloads_the_archive_of_each_target() {
    let installs = read("action/install.sh");
    for target in targets() {
        assert!(installs.contains(&format!("target={target}")), "{target}");
    }
}

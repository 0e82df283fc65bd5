//! The installation of the tool.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::server::{Server, nowhere};
use super::{Job, VERSION, find, root, skipped};

/// The target whose binary this machine takes, or none.
fn target() -> Option<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some("x86_64-unknown-linux-musl"),
        ("linux", "aarch64") => Some("aarch64-unknown-linux-musl"),
        ("macos", "x86_64") => Some("x86_64-apple-darwin"),
        ("macos", "aarch64") => Some("aarch64-apple-darwin"),
        _ => None,
    }
}

/// A cargo that writes down how it is called, and installs a program that says what it is.
const CARGO: &str = r#"#!/bin/sh
{ pwd; printf '%s\n' "$@"; } > "$RUNNER_TEMP/../cargo"
while [ "$1" != --root ]; do shift; done
mkdir -p "$2/bin"
printf '#!/bin/sh\necho ptmem-gate built\n' > "$2/bin/ptmem"
chmod +x "$2/bin/ptmem"
"#;

fn installing(url: &str) -> Job {
    let mut job = Job::new();
    job.program("cargo", CARGO);
    job.set("GITHUB_SERVER_URL", url).set("PTMEM_ACTION_REPOSITORY", "owner/ptmem");
    job
}

/// A program that prints its version, in an archive, and the line of its checksum.
fn release(version: &str) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ptmem-{version}-{}", target().unwrap());
    fs::create_dir(folder.path().join(&name)).unwrap();
    let program = folder.path().join(&name).join("ptmem");
    fs::write(&program, format!("#!/bin/sh\necho ptmem-gate {version}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let archive = folder.path().join("archive.tar.gz");
    let status = Command::new("tar").arg("-C").arg(folder.path()).arg("-czf").arg(&archive).arg(&name).status();
    assert!(status.unwrap().success());
    let program: &[&str] = if find("sha256sum").is_some() { &["sha256sum"] } else { &["shasum", "-a", "256"] };
    let output = Command::new(program[0]).args(&program[1..]).arg(&archive).output().unwrap();
    let checksum = String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(checksum.len(), 64);
    (fs::read(&archive).unwrap(), format!("{checksum}  {name}.tar.gz\n"))
}

/// A server with the files of a release.
fn releases(version: &str, archive: Option<Vec<u8>>, checksum: Option<String>) -> Server {
    let path = format!("/owner/ptmem/releases/download/v{version}/ptmem-{version}-{}.tar.gz", target().unwrap());
    Server::start(move |request| {
        let content = match request.path.strip_prefix(path.as_str()) {
            Some("") => archive.clone(),
            Some(".sha256") => checksum.clone().map(String::into_bytes),
            _ => None,
        };
        content.map_or((404, vec![]), |content| (200, content))
    })
}

/// The version that the program installed for the following steps prints.
fn installed(job: &Job) -> String {
    let folder = job.read("path");
    let output = Command::new(Path::new(folder.trim_end()).join("ptmem")).arg("--version").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_ptmem_on_the_path_is_used() {
    if skipped() {
        return;
    }
    let mut job = installing(&nowhere());
    job.program("ptmem", "#!/bin/sh\necho ptmem-gate 7.8.9\n");
    for version in ["", "7.8.9", "v7.8.9"] {
        job.set("PTMEM_VERSION", version);
        job.run("install.sh").says(0, "using ptmem-gate 7.8.9, which is on the path as ptmem");
    }
    assert_eq!(job.read("path"), "");
    assert!(!job.path("cargo").exists());
}

#[test]
fn another_tool_of_the_same_name_is_not_taken_for_this_one() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let server = releases(VERSION, Some(archive), Some(checksum));
    for other in ["echo ptmem 9.0.0", "echo ptmem-gate-other 1.0", "exit 2"] {
        let job = installing(&server.url);
        job.program("ptmem", &format!("#!/bin/sh\n{other}\n"));
        job.run("install.sh").says(0, "downloading");
        assert_eq!(installed(&job), format!("ptmem-gate {VERSION}\n"), "{other}");
    }
}

#[test]
fn the_name_of_the_python_package_leads_to_the_tool_where_another_has_the_short_one() {
    if skipped() {
        return;
    }
    let job = installing(&nowhere());
    job.program("ptmem", "#!/bin/sh\necho ptmem 9.0.0\n").program("ptmem-gate", "#!/bin/sh\necho ptmem-gate 7.8.9\n");
    job.run("install.sh").says(0, "using ptmem-gate 7.8.9, which is on the path as ptmem-gate");
    let folder = job.read("path");
    let program = Path::new(folder.trim_end()).join("ptmem");
    let output = Command::new(program).env("PATH", job.path("bin")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "ptmem-gate 7.8.9\n");
    assert!(!job.path("cargo").exists());
}

#[test]
fn a_release_is_downloaded_and_checked() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let (bare, windows) = (checksum[..64].to_owned(), checksum.replace("  ", " *").replace('\n', "\r\n"));
    for checksum in [checksum, bare, windows] {
        let server = releases(VERSION, Some(archive.clone()), Some(checksum));
        let job = installing(&server.url);
        job.run("install.sh").says(0, "downloading");
        assert_eq!(installed(&job), format!("ptmem-gate {VERSION}\n"));
        assert!(!job.path("cargo").exists());
    }
}

#[test]
fn another_version_than_that_on_the_path_is_downloaded() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release("9.9.9-rc.1");
    let server = releases("9.9.9-rc.1", Some(archive), Some(checksum));
    let mut job = installing(&server.url);
    job.program("ptmem", "#!/bin/sh\necho ptmem-gate 7.8.9\n");
    job.set("PTMEM_VERSION", "v9.9.9-rc.1").run("install.sh").says(0, "ptmem-gate 9.9.9-rc.1");
    assert_eq!(installed(&job), "ptmem-gate 9.9.9-rc.1\n");
}

#[test]
fn a_release_with_another_checksum_is_an_error() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let zeros = format!("{}  ptmem.tar.gz\n", "0".repeat(64));
    for wrong in [zeros, checksum[..63].to_owned(), checksum.to_uppercase(), String::new(), "<html>\n".to_owned()] {
        let server = releases(VERSION, Some(archive.clone()), Some(wrong));
        let job = installing(&server.url);
        job.run("install.sh").says(2, "has not the checksum of its release");
        assert_eq!(job.read("path"), "");
        assert!(!job.path("cargo").exists());
    }
}

#[test]
fn an_archive_that_holds_something_else_is_no_verdict() {
    if skipped() || target().is_none() {
        return;
    }
    // The right checksum of a wrong archive: nothing may end with 1.
    let (archive, checksum) = release("1.2.3");
    let server = releases(VERSION, Some(archive), Some(checksum));
    let job = installing(&server.url);
    assert_eq!(job.run("install.sh").code, 2);
    assert_eq!(job.read("path"), "");
}

#[test]
fn where_there_is_no_release_the_source_is_built() {
    if skipped() || target().is_none() {
        return;
    }
    let (archive, checksum) = release(VERSION);
    let nothing = releases(VERSION, None, None);
    let unchecked = releases(VERSION, Some(archive), None);
    let checksum = releases(VERSION, None, Some(checksum));
    for url in [nothing.url.clone(), unchecked.url.clone(), checksum.url.clone(), nowhere()] {
        let mut job = installing(&url);
        for version in ["", VERSION] {
            fs::write(job.path("path"), "").unwrap();
            job.set("PTMEM_VERSION", version).run("install.sh").says(0, "building it from the source of the action");
            assert_eq!(installed(&job), "ptmem-gate built\n");
            let called = job.read("cargo");
            let called: Vec<_> = called.lines().collect();
            let source = root().to_str().unwrap();
            assert_eq!(Path::new(called[0]).canonicalize().unwrap(), root().canonicalize().unwrap());
            assert_eq!(called[1..6], ["install", "--locked", "--path", source, "--root"]);
        }
    }
    // An action of the same repository has no releases to look at.
    let mut job = installing(&nothing.url);
    job.set("PTMEM_ACTION_REPOSITORY", "").run("install.sh").says(0, "ptmem-gate built");
}

#[test]
fn without_a_way_to_install_it_says_what_is_missing() {
    if skipped() {
        return;
    }
    let url = nowhere();
    let finished = installing(&url).set("PTMEM_VERSION", "9.9.9").run("install.sh");
    finished.says(2, "::error::ptmem: release 9.9.9 has no download for this machine, and the source of the");
    let finished = installing(&url).without("cargo").run("install.sh");
    finished.says(2, "no cargo to build it with");
    let job = installing(&url);
    job.program("cargo", "#!/bin/sh\nexit 101\n").run("install.sh").says(2, "could not be built");
    for version in ["latest", "../../x", "1.0 $(id)", "-1"] {
        let finished = installing(&url).set("PTMEM_VERSION", version).run("install.sh");
        finished.says(2, &format!("::error::ptmem: version: '{version}' is not accepted; expected a released version"));
    }
}

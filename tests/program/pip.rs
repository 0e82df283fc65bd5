//! `ptmem pip install` with packages of this test in place of the index.

#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::tool::{say, text};

/// Makes wheels: a PyTorch that requires a library of NVIDIA, that library, and a package that requires PyTorch.
const WHEELS: &str = r#"
import sys, zipfile
for name, module, requires in [
    ("torch", "torch", ["nvidia-cublas-cu12==12.8.4.1"]),
    ("nvidia-cublas-cu12", "real_library", []),
    ("nvidia-ml-py", "pynvml", []),
    ("model", "model", ["torch>=2.6", "nvidia-ml-py"]),
]:
    version = "12.8.4.1" if "cublas" in name else "2.11.0"
    head = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(f"{sys.argv[1]}/{head}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}.py", "")
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{head}.dist-info/METADATA", metadata + "".join(f"Requires-Dist: {one}\n" for one in requires))
        wheel.writestr(f"{head}.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{head}.dist-info/RECORD", "")
"#;

/// An environment without packages, and a folder of wheels. None where this machine has no Python to make it.
struct Environment {
    folder: TempDir,
}

impl Environment {
    fn make(options: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let python = |arguments: &[&str]| {
            let output = Command::new("python3").args(arguments).current_dir(folder.path()).output();
            output.is_ok_and(|output| output.status.success())
        };
        std::fs::create_dir(folder.path().join("wheels")).unwrap();
        if !python(&[&["-m", "venv", "environment"], options].concat()) || !python(&["-c", WHEELS, "wheels"]) {
            say("skipped: no python3 with venv to install packages into");
            return None;
        }
        Some(Self { folder })
    }

    /// Runs a program of the environment, or ptmem, with nothing but the environment and these folders on the path.
    fn run(&self, program: impl AsRef<Path>, arguments: &[&str], path: &[&Path]) -> Output {
        let mut command = Command::new(program.as_ref());
        let own = self.folder.path().join("environment");
        let folders = [own.join("bin")].into_iter().chain(path.iter().map(|folder| folder.to_path_buf()));
        command.args(arguments).current_dir(self.folder.path()).env("PATH", std::env::join_paths(folders).unwrap());
        command.env("VIRTUAL_ENV", own).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PIP_") || name.starts_with("UV_")) {
            command.env_remove(name);
        }
        command.env("UV_CACHE_DIR", self.folder.path().join("cache")).output().unwrap()
    }

    fn install(&self, path: &[&Path]) -> Output {
        let arguments = ["pip", "install", "--quiet", "--no-index", "--find-links", "wheels", "model"];
        self.run(env!("CARGO_BIN_EXE_ptmem"), &arguments, path)
    }

    fn imports(&self, module: &str) -> bool {
        let python = self.folder.path().join("environment/bin/python");
        self.run(python, &["-c", &format!("import {module}")], &[]).status.success()
    }

    #[track_caller]
    fn has_all_but_nvidia(&self) {
        assert!(self.imports("model") && self.imports("torch") && self.imports("pynvml"));
        assert!(!self.imports("real_library"), "the library of NVIDIA was installed");
    }
}

#[test]
fn pip_installs_all_but_the_libraries_and_they_stay_away() {
    let Some(environment) = Environment::make(&[]) else { return };
    let ptmem = env!("CARGO_BIN_EXE_ptmem");
    let output = environment.run(ptmem, &["pip", "install", "--no-index", "no-such-package"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no-such-package"), "{}", text(&output.stderr));

    let output = environment.install(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("stand-ins for 1 package of NVIDIA"), "{}", text(&output.stderr));
    environment.has_all_but_nvidia();
    // Whatever is installed later takes them for installed, and they can be removed.
    let python = environment.folder.path().join("environment/bin/python");
    let again = ["-m", "pip", "install", "--no-index", "--find-links", "wheels", "--upgrade", "model"];
    for arguments in [&again[..], &["-m", "pip", "check"]] {
        let output = environment.run(&python, arguments, &[]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    environment.has_all_but_nvidia();
    let removed = environment.run(&python, &["-m", "pip", "uninstall", "--yes", "nvidia-cublas-cu12"], &[]);
    assert_eq!(removed.status.code(), Some(0), "{}", text(&removed.stderr));
    let output = environment.run(&python, &again, &[]);
    assert!(environment.imports("real_library"), "{}", text(&output.stderr));
}

/// The folder of uv, where it is on the path.
fn folder_of_uv() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folder = std::env::split_paths(&path).find(|folder| folder.join("uv").is_file());
    if folder.is_none() {
        say("skipped: no uv on the path");
    }
    folder
}

/// Makes a package to be built, which takes a part of setuptools that the newer of two releases lacks.
const BUILT: &str = r#"
import io, tarfile, zipfile
BACKEND = """
import pkg_resources, zipfile
def build_wheel(folder, *_):
    name = "old-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as wheel:
        wheel.writestr("old.py", "")
        wheel.writestr("old-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: old\\nVersion: 1.0\\n")
        wheel.writestr("old-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("old-1.0.dist-info/RECORD", "")
    return name
"""
for version, modules in ("81.0", ["backend", "pkg_resources"]), ("82.0", ["backend"]):
    head = f"setuptools-{version}"
    with zipfile.ZipFile(f"wheels/{head}-py3-none-any.whl", "w") as wheel:
        for module in modules:
            wheel.writestr(f"{module}.py", BACKEND if module == "backend" else "")
        wheel.writestr(f"{head}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: setuptools\nVersion: {version}\n")
        wheel.writestr(f"{head}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{head}.dist-info/RECORD", "")
with tarfile.open("wheels/old-1.0.tar.gz", "w:gz") as archive:
    for name, text in [
        ("pyproject.toml", '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "backend"\n'),
        ("PKG-INFO", "Metadata-Version: 2.1\nName: old\nVersion: 1.0\n"),
    ]:
        entry = tarfile.TarInfo("old-1.0/" + name)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
"#;

#[test]
fn packages_that_need_an_older_setuptools_are_built_with_it() {
    let Some(folder) = folder_of_uv() else { return };
    let Some(environment) = Environment::make(&["--without-pip"]) else { return };
    let python = environment.folder.path().join("environment/bin/python");
    let made = environment.run(&python, &["-c", BUILT], &[]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let arguments = ["pip", "install", "--no-index", "--find-links", "wheels", "old"];
    let alone = environment.run(folder.join("uv"), &arguments, &[&folder]);
    assert!(text(&alone.stderr).contains("pkg_resources") && !alone.status.success(), "{}", text(&alone.stderr));
    let output = environment.run(env!("CARGO_BIN_EXE_ptmem"), &arguments, &[&folder]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(environment.imports("old"));
}

#[test]
fn uv_does_the_same() {
    let Some(folder) = folder_of_uv() else { return };
    let Some(environment) = Environment::make(&["--without-pip"]) else { return };
    let output = environment.install(&[&folder]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    environment.has_all_but_nvidia();
    let arguments = ["pip", "install", "--no-index", "--find-links", "wheels", "model"];
    let again = environment.run(folder.join("uv"), &arguments, &[&folder]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    environment.has_all_but_nvidia();
}

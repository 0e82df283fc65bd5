//! How a program is installed, in the words of pip.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::programs::{self, FoundProgram};
use super::python::PythonVersion;

/// Packages with the names that programs import, if they differ. Only well-known ones: a wrong name would install what nobody
/// asked for.
const KNOWN: &str = "
    accelerate bitsandbytes cv2=opencv-python-headless datasets deepspeed diffusers einops evaluate fire gym gymnasium h5py
    hydra=hydra-core imageio lightning lpips matplotlib nltk numpy omegaconf pandas peft PIL=pillow psutil tyro requests
    pytorch_lightning=pytorch-lightning safetensors scipy seaborn sentencepiece skimage=scikit-image sklearn=scikit-learn
    tensorboard tensorboardX=tensorboardx tiktoken timm torchaudio torchmetrics torchvision tqdm transformers wandb yaml=pyyaml";

/// How a program is installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Installation {
    pub(super) script: String,
    /// The version of Python, if not any.
    pub(super) python: Option<String>,
    /// What both follow.
    pub(super) because: String,
}

/// What is found of an installation, a part at a time.
#[derive(Debug, Default)]
struct FoundInstall {
    /// Commands before the last one, which installs `words`.
    before: Vec<&'static str>,
    words: Vec<String>,
    sources: Vec<String>,
    /// Texts that name packages.
    naming: String,
}

impl Installation {
    /// That of a program, by the nearest files that name packages; of the root without one.
    pub(super) fn of(root: &Path, program: Option<&FoundProgram>) -> Self {
        let path = program.map_or(".", |program| &program.path);
        let package = package_above(root, path);
        let mut found = FoundInstall::default();
        if root.join("uv.lock").is_file() && root.join("pyproject.toml").is_file() {
            found.before.push(EXPORT);
            found.take(root, "uv.lock", &["-r", LOCKED]);
        } else {
            found.words.push("torch".to_owned());
            found.take_requirements(root, path, package.as_deref());
        }
        match &package {
            Some(folder) => found.take_package(root, folder),
            None if found.sources.is_empty() && !dependencies(&table(root, "")).is_empty() => {
                // Only uv reads this.
                found.before.push("pip install uv");
                found.take(root, "pyproject.toml", &["-r", "pyproject.toml"]);
            }
            None => {}
        }
        program.into_iter().for_each(|program| found.take_imports(program));
        found.installation(PythonVersion::of(root))
    }
}

/// The file of the packages that uv.lock pins: in the environment, where it changes no file of the repository.
const LOCKED: &str = "\"$VIRTUAL_ENV/locked.txt\"";
const EXPORT: &str =
    "uv export --quiet --frozen --no-hashes --no-emit-project --output-file \"$VIRTUAL_ENV/locked.txt\"";

/// What a build without isolation finds in the environment.
const BUILD: &str = "ptmem pip install torch setuptools wheel";

impl FoundInstall {
    fn installation(mut self, python: Option<PythonVersion>) -> Installation {
        if self.sources.is_empty() {
            self.sources.push("no file that names packages".to_owned());
        }
        let last = format!("ptmem pip install {}", self.words.join(" "));
        // The end of a text of several lines.
        let end = if self.before.is_empty() { "" } else { "\n" };
        self.sources.extend(python.as_ref().map(|python| format!("Python {} by {}", python.version, python.source)));
        self.sources.extend(too_old(&self.naming).map(|pin| {
            format!("but {pin} is older than PyTorch 2.0, the first that can be recorded: edit 'install' or the pin")
        }));
        Installation {
            script: [&self.before[..], &[&*last]].concat().join("\n") + end,
            python: python.map(|python| python.version),
            because: self.sources.join(", "),
        }
    }

    /// Takes packages from a file.
    fn take(&mut self, root: &Path, file: &str, words: &[&str]) {
        self.words.extend(words.iter().map(|word| (*word).to_owned()));
        self.sources.push(file.to_owned());
        self.naming += &(read(root, file) + "\n");
    }

    /// Takes the nearest requirements, unless they lie beside or above a package that names its own.
    fn take_requirements(&mut self, root: &Path, path: &str, package: Option<&str>) {
        let mut folders = Path::new(path).ancestors().skip(1);
        let Some(folder) = folders.find(|folder| root.join(folder).join("requirements.txt").is_file()) else { return };
        let is_of_package = package.is_some_and(|package| Path::new(package).starts_with(folder));
        if !is_of_package || dependencies(&table(root, package.unwrap_or_default())).is_empty() {
            let file = folder.join("requirements.txt").display().to_string();
            self.take(root, &file, &["-r", &programs::word(&file)]);
        }
    }

    fn take_package(&mut self, root: &Path, folder: &str) {
        let files = ["pyproject.toml", "setup.py"].map(|name| below(folder, name));
        let setup = read(root, &files[1]);
        // Also within a function or a try: the build may need it all the same.
        if setup
            .lines()
            .map(str::trim_start)
            .any(|line| line.starts_with("import torch") || line.starts_with("from torch"))
        {
            self.before.push(BUILD);
            self.words.insert(0, "--no-build-isolation".to_owned());
        }
        let texts = [dependencies(&table(root, folder)).join("\n"), setup, read(root, &below(folder, "setup.cfg"))];
        self.naming += &texts.join("\n");
        self.words.push(if folder.is_empty() { ".".to_owned() } else { programs::word(&format!("./{folder}")) });
        self.sources.extend(files.into_iter().find(|file| root.join(file).is_file()));
    }

    /// Takes well-known packages that a program imports and no file names.
    fn take_imports(&mut self, program: &FoundProgram) {
        let named = names(&self.naming);
        let pairs = KNOWN.split_whitespace().map(|word| word.split_once('=').unwrap_or((word, word)));
        let imported = pairs.filter(|(module, _)| program.imports.packages.contains(*module)).map(|(_, name)| name);
        let unnamed: Vec<&str> = imported.filter(|name| !named.contains(name.trim_end_matches("-headless"))).collect();
        if !unnamed.is_empty() {
            self.sources.push(format!("its imports ({})", unnamed.join(", ")));
            self.words.extend(unnamed.into_iter().map(str::to_owned));
        }
    }
}

/// The nearest folder above a program that pip can install, from the root: with a setup.py, or with a pyproject.toml that names a
/// build system and a package.
pub(super) fn package_above(root: &Path, path: &str) -> Option<String> {
    let mut folders = Path::new(path).ancestors().skip(1).map(|folder| folder.display().to_string());
    folders.find(|folder| {
        let project = table(root, folder);
        let is_poetry = project.get("tool").is_some_and(|tool| tool.get("poetry").is_some());
        let is_package =
            project.contains_key("project") || is_poetry || root.join(below(folder, "setup.cfg")).is_file();
        root.join(below(folder, "setup.py")).is_file() || project.contains_key("build-system") && is_package
    })
}

/// The programs that an installation of the root puts on the path, with their modules.
pub(super) fn scripts(root: &Path) -> Vec<(String, String)> {
    let project = table(root, "");
    let poetry = project.get("tool").and_then(|tool| tool.get("poetry")?.get("scripts"));
    let tables = [project.get("project").and_then(|project| project.get("scripts")), poetry];
    let scripts = tables.into_iter().flatten().filter_map(toml::Value::as_table).flatten();
    scripts.filter_map(|(name, of)| Some((name.clone(), of.as_str()?.split(':').next()?.to_owned()))).collect()
}

/// The pyproject.toml of a folder.
fn table(root: &Path, folder: &str) -> toml::Table {
    toml::from_str(&read(root, &below(folder, "pyproject.toml"))).unwrap_or_default()
}

/// A file of a folder, both from the root.
fn below(folder: &str, name: &str) -> String {
    Path::new(folder).join(name).display().to_string()
}

/// The packages that a project depends on.
fn dependencies(project: &toml::Table) -> Vec<String> {
    let standard = project.get("project").and_then(|project| project.get("dependencies")?.as_array());
    let poetry = project.get("tool").and_then(|tool| tool.get("poetry")?.get("dependencies")?.as_table());
    let standard = standard.into_iter().flatten().filter_map(|package| Some(package.as_str()?.to_owned()));
    standard.chain(poetry.into_iter().flat_map(|table| table.keys().cloned())).collect()
}

/// The words of a text that may be names of packages, spelled as an index does.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_-".contains(c));
    words.map(|word| word.to_ascii_lowercase().replace('_', "-")).collect()
}

/// The pin of a release of PyTorch that nothing records.
fn too_old(text: &str) -> Option<&str> {
    let mut pins = text.lines().filter_map(|line| line.split(['#', ';', ',']).next()).map(str::trim);
    pins.find(|pin| {
        let pinned = pin.strip_prefix("torch").map(str::trim_start);
        let version = pinned.and_then(|rest| rest.strip_prefix("==").or(rest.strip_prefix("~=")));
        version.is_some_and(|version| version.trim_start().starts_with("0.") || version.trim_start().starts_with("1."))
    })
}

fn read(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).unwrap_or_default()
}

//! The packages that the recorded programs need and no file of the repository names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::programs::{Interface, Program};
use super::python::CONDA;

/// Packages of the index of Python with the name that programs import, if they differ. Only well-known ones: the Action
/// names packages that are still missing before it records.
const KNOWN: &str = "
    accelerate bitsandbytes cv2=opencv-python-headless datasets deepspeed diffusers einops evaluate fire gym
    gymnasium h5py hydra=hydra-core imageio lightning lpips matplotlib nltk numpy omegaconf pandas peft PIL=pillow
    psutil pytorch_lightning=pytorch-lightning requests safetensors scipy seaborn sentencepiece
    skimage=scikit-image sklearn=scikit-learn tensorboard tensorboardX tiktoken timm torchaudio torchmetrics
    torchvision tqdm transformers tyro wandb yaml=pyyaml";

/// [`KNOWN`] as pairs of a module and its package.
fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.split_whitespace().map(|word| word.split_once('=').unwrap_or((word, word)))
}

/// Files that name packages, beside those of conda.
const NAMING: [&str; 4] = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"];

/// Files of requirements in the folders of programs, where the root has none.
pub(super) fn requirements_of(root: &Path, programs: &[Program]) -> Vec<String> {
    let mut found = Vec::new();
    for program in programs {
        let folders = Path::new(&program.path).ancestors().skip(1).map(|folder| folder.join("requirements.txt"));
        let file = folders.into_iter().find(|file| root.join(file).is_file()).map(|file| file.display().to_string());
        found.extend(file.filter(|file| !found.contains(file)));
    }
    found
}

/// The packages that programs import and that neither these files nor the usual ones name.
pub(super) fn unnamed(root: &Path, programs: &[Program], files: &[String]) -> Vec<&'static str> {
    let naming = NAMING.into_iter().chain(CONDA).chain(files.iter().map(String::as_str));
    let named: String =
        naming.map(|file| without_extras(&fs::read_to_string(root.join(file)).unwrap_or_default())).collect();
    let named = named.to_ascii_lowercase().replace('_', "-");
    let modules: BTreeSet<String> = programs.iter().flat_map(|program| imported(root, program)).collect();
    let mut packages: Vec<&str> =
        known().filter(|(module, _)| modules.contains(*module)).map(|(_, package)| package).collect();
    if programs.iter().any(|program| program.interface == Interface::Notebook) {
        packages.extend(["ipython", "ipywidgets", "nbformat"]);
    }
    // Hydra brings it.
    packages.retain(|package| *package != "omegaconf" || !named.contains("hydra-core"));
    packages.retain(|package| !named.contains(package.to_ascii_lowercase().trim_end_matches("-headless")));
    packages
}

/// A pyproject.toml without what nobody gets who does not ask for it.
fn without_extras(text: &str) -> String {
    let mut is_extra = false;
    let lines = text.lines().filter(|line| {
        if line.starts_with('[') {
            is_extra =
                ["[project.optional-dependencies", "[dependency-groups"].iter().any(|head| line.starts_with(head));
        }
        !is_extra
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Maximum number of the repository's own files that the imports of a program are followed to.
const MOST_FILES: usize = 100;

/// The package of the index that a module is in, as far as it is well known; otherwise one with its name.
pub(super) fn package_of(module: &str) -> &str {
    known().find(|(known, _)| *known == module).map_or(module, |(_, package)| package)
}

/// The packages that a program imports, and those that the modules of the repository import for it.
pub(super) fn imported(root: &Path, program: &Program) -> BTreeSet<String> {
    let mut packages = BTreeSet::new();
    let mut files = vec![root.join(&program.path)];
    let mut next = 0;
    while let Some(file) = files.get(next).filter(|_| next < MOST_FILES).cloned() {
        next += 1;
        let text = fs::read_to_string(&file).unwrap_or_default();
        for module in text.lines().flat_map(modules_of) {
            let own = own_files(root, &root.join(&program.path), &file, module);
            if own.is_empty() && !module.starts_with('.') {
                packages.insert(
                    if module.starts_with("torch.utils.tensorboard") { "tensorboard" } else { top(module) }.to_owned(),
                );
            }
            for found in own {
                if !files.contains(&found) {
                    files.push(found);
                }
            }
        }
    }
    packages
}

/// The modules that a line imports, in a file of Python or a notebook, where it is a string of JSON.
pub(super) fn modules_of(line: &str) -> Vec<&str> {
    let line = line.trim_start_matches([' ', '\t', '"']).trim_end_matches(['"', ',']).trim_end_matches("\\n");
    let names = match (line.strip_prefix("import "), line.strip_prefix("from ")) {
        (Some(names), _) => names.split(',').collect(),
        (_, Some(name)) => vec![name],
        _ => Vec::new(),
    };
    names.into_iter().filter_map(|name| name.split_whitespace().next()).collect()
}

/// The first part of a module's name.
pub(super) fn top(module: &str) -> &str {
    module.split('.').next().unwrap_or(module)
}

/// True for a file of Python, or a folder with one: folders of data can have the name of a package.
fn is_module(path: &Path) -> bool {
    let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
    path.with_extension("py").is_file() || entries.any(|entry| entry.path().extension().is_some_and(|end| end == "py"))
}

/// The files of the repository that an import in `file` runs: beside the program, or below the root.
fn own_files(root: &Path, program: &Path, file: &Path, module: &str) -> Vec<PathBuf> {
    let name = module.trim_start_matches('.');
    let levels = module.len() - name.len();
    let path: PathBuf = name.split('.').collect();
    let folders = match levels {
        0 => vec![program.with_file_name(""), root.to_owned(), root.join("src")],
        levels => file.ancestors().nth(levels).map(Path::to_owned).into_iter().collect(),
    };
    let mut folders = folders.into_iter();
    let own =
        folders.find(|folder| folder.join(&path).with_extension("py").is_file() || is_module(&folder.join(top(name))));
    let Some(folder) = own else { return Vec::new() };
    let mut found: Vec<PathBuf> = path.ancestors().map(|part| folder.join(part).join("__init__.py")).collect();
    found.push(folder.join(&path).with_extension("py"));
    found.retain(|file| file.is_file());
    if found.is_empty() { vec![folder.join(path)] } else { found }
}

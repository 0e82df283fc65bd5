//! The packages that the recorded programs need and no file of the repository names.

use std::fs;
use std::path::Path;

use super::programs::{Interface, Program};

/// Packages of the index of Python with the name that programs import, if they differ. Only well-known ones: the Action
/// names packages that are still missing before it records.
const KNOWN: [(&str, &str); 44] = [
    ("accelerate", ""),
    ("bitsandbytes", ""),
    ("cv2", "opencv-python-headless"),
    ("datasets", ""),
    ("deepspeed", ""),
    ("diffusers", ""),
    ("einops", ""),
    ("evaluate", ""),
    ("fire", ""),
    ("gym", ""),
    ("gymnasium", ""),
    ("h5py", ""),
    ("hydra", "hydra-core"),
    ("imageio", ""),
    ("lightning", ""),
    ("lpips", ""),
    ("matplotlib", ""),
    ("nltk", ""),
    ("numpy", ""),
    ("omegaconf", ""),
    ("pandas", ""),
    ("peft", ""),
    ("PIL", "pillow"),
    ("psutil", ""),
    ("pytorch_lightning", "pytorch-lightning"),
    ("requests", ""),
    ("safetensors", ""),
    ("scipy", ""),
    ("seaborn", ""),
    ("sentencepiece", ""),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("tensorboard", ""),
    ("tensorboardX", ""),
    ("tiktoken", ""),
    ("timm", ""),
    ("torchaudio", ""),
    ("torchmetrics", ""),
    ("torchvision", ""),
    ("tqdm", ""),
    ("transformers", ""),
    ("tyro", ""),
    ("wandb", ""),
    ("yaml", "pyyaml"),
];

/// Files that name packages.
const NAMING: [&str; 8] = [
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "environment.yml",
    "environment.yaml",
    "conda.yml",
    "conda.yaml",
];

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
    let naming = NAMING.into_iter().chain(files.iter().map(String::as_str));
    let named: String = naming.map(|file| fs::read_to_string(root.join(file)).unwrap_or_default()).collect();
    let named = named.to_ascii_lowercase().replace('_', "-");
    let texts: Vec<(&Program, String)> = programs
        .iter()
        .filter_map(|program| Some((program, fs::read_to_string(root.join(&program.path)).ok()?)))
        .collect();
    let imported = KNOWN
        .into_iter()
        .filter(|(module, _)| texts.iter().any(|(program, text)| imports(root, program, text, module)));
    let mut packages: Vec<&str> =
        imported.map(|(module, package)| if package.is_empty() { module } else { package }).collect();
    if programs.iter().any(|program| program.interface == Interface::Notebook) {
        packages.extend(["ipython", "ipywidgets", "nbformat"]);
    }
    packages.retain(|package| !named.contains(&package.to_ascii_lowercase()));
    packages
}

/// True if a program imports a module that is not the repository's own.
fn imports(root: &Path, program: &Program, text: &str, module: &str) -> bool {
    let beside = root.join(&program.path).with_file_name(module);
    let is_own = [root.join(module), beside].iter().any(|place| place.is_dir() || place.with_extension("py").is_file());
    // A line of a notebook is a string of JSON.
    let lines = text
        .lines()
        .map(|line| line.trim_start_matches([' ', '"']).trim_end_matches(['"', ',']).trim_end_matches("\\n"));
    let mut names = lines.filter_map(|line| line.strip_prefix("import ").or_else(|| line.strip_prefix("from ")));
    !is_own && names.any(|name| name.split(['.', ' ', ',']).next() == Some(module))
}

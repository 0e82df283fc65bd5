//! `ptmem init` in repositories of several kinds, and `ptmem doctor` on good and bad recordings.

use std::fs;
use std::path::Path;

use ptmem::config::{Config, GateSource, Recording};
use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::tool::{ptmem, text};

fn repository(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join(".git")).unwrap();
    for (name, content) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    place
}

fn init(folder: &Path, arguments: &[&str]) -> String {
    let output = ptmem(folder, &[&["init"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn read(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn fixture(name: &str) -> String {
    fixtures::folder().join(name).display().to_string()
}

/// The gates that init writes, with their names.
fn gates(folder: &Path) -> Vec<(String, Recording)> {
    let config = Config::parse(&read(folder, "ptmem.toml")).unwrap();
    let recordings = config.gates.into_iter().map(|(name, rules)| match rules.source {
        GateSource::Recorded(recording) => (name, recording),
        other => panic!("{name}: {other:?}"),
    });
    recordings.collect()
}

/// The gates for files, and what init says.
fn proposed(files: &[(&str, &str)]) -> (Vec<(String, Recording)>, String) {
    let place = repository(files);
    let told = init(place.path(), &[]);
    (gates(place.path()), told)
}

/// What the only gate for files records.
fn recorded(files: &[(&str, &str)]) -> Recording {
    let (mut gates, told) = proposed(files);
    assert_eq!(gates.len(), 1, "{told}");
    gates.remove(0).1
}

/// The script that installs for files.
fn installed(files: &[(&str, &str)]) -> String {
    recorded(files).install.unwrap()
}

/// A program that trains on a GPU.
const PROGRAM: &str = "import torch\nmodel.cuda()\nfor batch in loader:\n    loss.backward()\n";

/// A program that samples on a GPU.
const SAMPLER: &str = "import torch\nmodel.cuda()\nfor prompt in prompts:\n    print(model(prompt))\n";

const TRAIN: (&str, &str) = ("train.py", PROGRAM);

#[test]
fn a_repository_gets_gates_and_the_workflow_that_runs_them() {
    let place = repository(&[TRAIN, ("venv/lib/train.py", PROGRAM), ("venv/pyvenv.cfg", ""), ("lib/x.py", "")]);
    // From a folder within.
    let told = init(&place.path().join("lib"), &[]);
    let expected = format!(
        "{}\n  [gate.train] python train.py\n    no README or docstring has its command; it seems to train; not tried\n    \
         installed by no file that names packages\n\nwritten  ptmem.toml\nwritten  .github/workflows/memory.yml\n\nNext:\n  \
         try it: ptmem gate\n  in .github/workflows/memory.yml, replace OWNER by the owner of the Action\n  \
         commit these files and merge them\n",
        fs::canonicalize(place.path()).unwrap().display()
    );
    assert_eq!(told, expected);
    let of_train = Recording {
        install: Some("ptmem pip install torch".to_owned()),
        ..Recording::of("python train.py".to_owned())
    };
    assert_eq!(gates(place.path()), [("train".to_owned(), of_train)]);
    // Limits on more than the peak.
    let gate = ptmem(place.path(), &["diff", &fixture("before.pkl"), &fixture("after.pkl"), "--format", "junit"]);
    assert_eq!(gate.status.code(), Some(1), "{}", text(&gate.stderr));
    for limit in ["name=\"peak within 5 %\"", "name=\"end within 5 % + 1.00 MiB\"", "aten::_softmax within 4.00 MiB\""]
    {
        assert!(text(&gate.stdout).contains(limit), "{limit}: {}", text(&gate.stdout));
    }
}

/// The names of inputs below `with:` of the step that uses an action.
fn given(workflow: &str, action: &str) -> Vec<String> {
    let lines = workflow.lines().skip_while(|line| !line.ends_with(&format!("uses: {action}"))).skip(2);
    let inputs = lines.take_while(|line| line.starts_with("          "));
    inputs.map(|line| line.trim().split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn the_job_that_runs_code_has_no_token_and_the_one_that_comments_runs_none() {
    let place = repository(&[TRAIN]);
    init(place.path(), &[]);
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    let (record, comment) = workflow.split_once("\n  comment:\n").unwrap();
    assert!(!record.contains("write") && record.contains("contents: read"), "{record}");
    assert!(comment.contains("pull-requests: write") && !comment.contains("checkout"), "{comment}");
    for (action, definition, input) in [
        ("OWNER/ptmem@v0", include_str!("../../action.yml"), "comment-artifact"),
        ("OWNER/ptmem/comment@v0", include_str!("../../comment/action.yml"), "report"),
    ] {
        assert_eq!(given(&workflow, action), [input]);
        assert!(definition.contains(&format!("\n  {input}:\n")), "{action} has no {input}");
    }
}

#[test]
fn without_a_program_there_is_a_script_to_fill_in() {
    let files = [("setup.py", ""), ("src/lib/__init__.py", "import torch\n"), ("tests/__init__.py", "")];
    let place = repository(&files);
    let told = init(place.path(), &[]);
    let of_script = Recording {
        install: Some("ptmem pip install torch .".to_owned()),
        ..Recording::of("python record_memory.py".to_owned())
    };
    assert_eq!(gates(place.path()), [("train".to_owned(), of_script)]);
    for part in [
        "  no program that a gate can record as it is\n",
        "\nwritten  record_memory.py\n",
        "\n  in record_memory.py, fill in what says REPLACE_ME\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(read(place.path(), "record_memory.py").contains("\nfrom lib import REPLACE_ME\n"));
    // Nobody has filled it in yet.
    let again = init(place.path(), &[]);
    assert!(
        again.contains("  no program that a gate") && again.contains(", fill in what says REPLACE_ME\n"),
        "{again}"
    );
    // A script that somebody has filled in is kept; no package is guessed among several.
    let several = [&files[..], &[("other/__init__.py", "")]].concat();
    let place = repository(&several);
    assert!(init(place.path(), &["--dry-run"]).contains("\nfrom REPLACE_ME import REPLACE_ME\n"));
    let named = place.path().join("Other");
    fs::create_dir_all(named.join(".git")).unwrap();
    ["other", "lib"].iter().for_each(|package| fs::create_dir(named.join(package)).unwrap());
    ["other", "lib"].iter().for_each(|package| fs::write(named.join(package).join("__init__.py"), "").unwrap());
    assert!(init(&named, &["--dry-run"]).contains("\nfrom other import REPLACE_ME\n"));
    fs::write(place.path().join("record_memory.py"), "import lib\n").unwrap();
    let told = init(place.path(), &[]);
    assert!(!told.contains("fill in") && gates(place.path())[0].1.script == "python record_memory.py", "{told}");
    assert_eq!(read(place.path(), "record_memory.py"), "import lib\n");
}

#[test]
fn packages_come_from_the_nearest_files_that_name_them() {
    let project = "[project]\nname = 'x'\ndependencies = ['numpy']\n";
    let package = &*format!("[build-system]\nrequires = ['setuptools']\n{project}");
    let numpy = format!("import numpy, tqdm\n{PROGRAM}");
    for (files, expected) in [
        (&[("pyproject.toml", package)][..], "ptmem pip install torch . tqdm"),
        // pip would build what nothing says how to build.
        (&[("pyproject.toml", project)], "pip install uv\nptmem pip install torch -r pyproject.toml tqdm\n"),
        (&[("pyproject.toml", "[tool.ruff]\n")], "ptmem pip install torch numpy tqdm"),
        (&[("setup.py", "setup()")], "ptmem pip install torch . numpy tqdm"),
        (
            &[("setup.py", "try:\n    import torch\n"), ("requirements.txt", "numpy\ntqdm\n")],
            "ptmem pip install torch setuptools wheel\nptmem pip install --no-build-isolation torch -r requirements.txt .\n",
        ),
        (&[("pyproject.toml", package), ("requirements.txt", "tqdm\n")], "ptmem pip install torch . tqdm"),
        (
            &[("pyproject.toml", package), ("uv.lock", "name = \"tqdm\"\n")],
            "uv export --quiet --frozen --no-hashes --no-emit-project --output-file \"$VIRTUAL_ENV/locked.txt\"\n\
             ptmem pip install -r \"$VIRTUAL_ENV/locked.txt\" .\n",
        ),
        // Neither an extra nor a longer name is the package.
        (
            &[("pyproject.toml", &format!("{package}[project.optional-dependencies]\nall = ['tqdm']\n"))],
            "ptmem pip install torch . tqdm",
        ),
        (
            &[("requirements.txt", "numpy-stl\ntqdm>=4 # bars\n# the end")],
            "ptmem pip install torch -r requirements.txt numpy",
        ),
    ] {
        assert_eq!(installed(&[files, &[("train.py", &numpy)]].concat()), expected, "{files:?}");
    }
    let of_folder = [("a/requirements.txt", "x\n"), ("a/train.py", PROGRAM), ("setup.py", "")];
    assert_eq!(installed(&of_folder), "ptmem pip install torch -r a/requirements.txt .");
    assert_eq!(installed(&[("a/setup.py", ""), ("a/b/train.py", PROGRAM)]), "ptmem pip install torch ./a");
}

#[test]
fn a_pin_of_pytorch_that_nothing_records_is_named() {
    for (pin, is_named) in
        [("torch==1.4.0", true), ("torch ~= 1.13 # old", true), ("torch==2.1.0", false), ("torch>=1.10", false)]
    {
        let place = repository(&[TRAIN, ("requirements.txt", &format!("numpy\n{pin}\n"))]);
        let told = init(place.path(), &[]);
        let named = "    installed by requirements.txt, but torch";
        assert_eq!(told.contains(named), is_named, "{told}");
    }
}

/// Branches of a job that exclude each other would be installed one after the other.
#[test]
fn no_workflow_decides_what_is_installed() {
    let workflow = "jobs:\n  test:\n    steps:\n      - if: matrix.old\n        run: pip install torch==1.13 -r old.txt # of then\n      \
                    - if: '!matrix.old'\n        run: pip install -r new.txt\n      - run: pytest\n";
    let files = [(".github/workflows/ci.yml", workflow), ("requirements.txt", "torch\n"), TRAIN];
    assert_eq!(installed(&files), "ptmem pip install torch -r requirements.txt");
}

#[test]
fn a_program_runs_as_texts_say_that_it_runs() {
    let program = ("tools/train.py", PROGRAM);
    for (readme, expected) in [
        ("", "python tools/train.py"),
        ("    python tools/train.py --lr 1\n", "python tools/train.py --lr 1"),
        ("Run `python -m tools.train --lr 1`.\n", "python -m tools.train --lr 1"),
        // From another folder.
        ("$ python train.py --lr 1\n", "python tools/train.py --lr 1"),
        (
            "python tools/train.py --data <data>\npython tools/train.py --data a \\\n  --lr 1\n",
            "python tools/train.py --data a --lr 1",
        ),
        ("python tools/train.py x=1\npython tools/train.py trainer=gpu\n", "python tools/train.py trainer=gpu"),
        ("python tools/train.py eval\npython tools/train.py finetune\n", "python tools/train.py finetune"),
        ("bash run.sh\n", "PYTHONPATH=. python tools/train.py --lr 2"),
    ] {
        let script = ("run.sh", "#!/bin/sh\nPYTHONPATH=. python tools/train.py --lr 2\n");
        assert_eq!(recorded(&[program, script, ("README.md", readme)]).script, expected, "{readme}");
    }
    let documented = format!("\"\"\"Trains.\n\npython -m tools.train --lr 3\n\"\"\"\n{PROGRAM}");
    assert_eq!(recorded(&[("tools/train.py", &documented)]).script, "python -m tools.train --lr 3");
}

/// Neither file has the usual condition: a call of `main` or a README makes it a program, but not one that installs.
#[test]
fn a_program_starts_by_a_call_or_by_a_text() {
    let body = "import torch\ndef main():\n    model.cuda()\n    loss.backward()\n";
    let called = format!("{body}main()\n");
    assert_eq!(recorded(&[("train.py", &called)]).script, "python train.py");
    let readme = ("README.md", "```sh\npython setup.py install\npython fit.py\n```\n");
    let installer = ("setup.py", "from torch.utils.cpp_extension import CUDAExtension\nsetup()\n");
    let fit = format!("{body}run = main\nrun()\n");
    assert_eq!(recorded(&[("fit.py", &fit), installer, readme]).script, "python fit.py");
}

#[test]
fn a_gate_has_the_ranks_and_the_folder_of_the_command() {
    let readme = "torchrun --standalone --nproc_per_node=8 train.py --lr 1\n";
    let recording = recorded(&[TRAIN, ("README.md", readme)]);
    assert_eq!((&*recording.script, recording.ranks), ("python train.py --lr 1", Some(8)));
    let single = recorded(&[TRAIN, ("README.md", &format!("{readme}python train.py\n"))]);
    assert_eq!((&*single.script, single.ranks), ("python train.py", None));
    let files = [("a/b/train.py", PROGRAM), ("a/README.md", "cd b\npython train.py --lr 1\n")];
    let recording = recorded(&files);
    assert_eq!(recording.script, "cd a/b && python train.py --lr 1");
}

#[test]
fn a_program_that_needs_the_root_on_its_path_is_a_module() {
    let of_root = format!("from lib.model import x\n{PROGRAM}");
    let of_folder = format!("from .model import x\n{PROGRAM}");
    let lib = [("lib/__init__.py", ""), ("lib/model.py", "")];
    for (files, expected) in [
        (&[("tools/train.py", &*of_root)][..], "python -m tools.train"),
        (&[("tools/train.py", &*of_root), ("setup.py", "")], "python tools/train.py"),
        (&[("lib/train.py", &*of_folder)], "python -m lib.train"),
        (&[("lib/__main__.py", PROGRAM)], "python -m lib"),
        (&[("train.py", &*of_root)], "python train.py"),
    ] {
        assert_eq!(recorded(&[&lib, files].concat()).script, expected, "{files:?}");
    }
}

#[test]
fn a_path_is_a_word_of_the_shell_and_no_option() {
    assert_eq!(recorded(&[("-c.py", PROGRAM)]).script, "python ./-c.py");
    assert_eq!(recorded(&[("my files/it's.py", PROGRAM)]).script, "python 'my files/it'\\''s.py'");
    let names: Vec<String> =
        proposed(&[("-c.py", PROGRAM), ("x/main.py", PROGRAM), ("x/y/main.py", PROGRAM), ("ü.py", PROGRAM)])
            .0
            .into_iter()
            .map(|(name, _)| name)
            .collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(proposed(&[("ü.py", PROGRAM)]).0[0].0, "gate-1");
    let same = proposed(&[("a/train.py", PROGRAM), ("b/train.py", PROGRAM)]).0;
    assert_eq!(same.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["b-train", "train"]);
}

#[test]
fn a_program_without_steps_is_recorded_as_a_whole() {
    let recording = recorded(&[("sample.py", SAMPLER), ("README.md", "python sample.py --length 8\n")]);
    assert_eq!((&*recording.script, &*recording.steps), ("python sample.py --length 8", "all"));
    // Training comes first, and what a README does not run is none.
    let (gates, told) =
        proposed(&[("sample.py", SAMPLER), ("other.py", SAMPLER), TRAIN, ("README.md", "python sample.py\n")]);
    assert_eq!(gates.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["sample", "train"], "{told}");
    assert!(told.find("[gate.train]") < told.find("[gate.sample]") && !told.contains("other.py"), "{told}");
}

const FILL_IN: &str = "(READMEs run it with arguments to fill in, or on several machines)";

/// The lines of what init says that name what is left out.
fn left_out(files: &[(&str, &str)]) -> Vec<String> {
    let told = proposed(files).1;
    told.lines().filter_map(|line| line.trim().strip_prefix("left out: ").map(str::to_owned)).collect()
}

#[test]
fn what_cannot_be_recorded_is_named_with_the_reason() {
    let requires = format!("p.add_argument('--data', required=True)\n{PROGRAM}");
    for (name, text, readme, expected) in [
        ("train.py", &*PROGRAM.replace("cuda", "cpu"), "", "(neither it nor what it imports names a GPU)"),
        ("train.py", &requires, "", "(no README or docstring gives the required --data)"),
        ("train.py", &requires, "python train.py --data <data>", "(no README or docstring gives the required --data)"),
        ("train.py", &format!("x = input('> ')\n{PROGRAM}"), "", "(it waits for input)"),
        (
            "train.py",
            PROGRAM,
            "python train.py --config gone.yaml",
            "(it reads gone.yaml, which is not in the repository)",
        ),
        ("eval.py", SAMPLER, "python eval.py $CHECKPOINT", FILL_IN),
        ("train.py", PROGRAM, "python train.py --nnodes 2", FILL_IN),
        (
            "vae.ipynb",
            "{\"source\": [\"import torch\\n\", \"loss.backward()\"]}",
            "",
            "(a notebook; record a script instead)",
        ),
    ] {
        assert_eq!(left_out(&[(name, text), ("README.md", readme)]), [format!("{name} {expected}")], "{readme}");
    }
}

#[test]
fn entry_points_come_before_tutorials_and_none_is_silent() {
    let needs = format!("p.add_argument('--data', required=True)\n{PROGRAM}");
    let scripts = "[project]\nname = 'x'\n[project.scripts]\nx-train = 'x.cli:main'\n";
    let files = [
        ("examples/tutorial.py", PROGRAM),
        ("examples/train.py", PROGRAM),
        ("pretrain.py", PROGRAM),
        ("x/cli.py", "import torch\ndef main():\n    loss.cuda().backward()\n"),
        ("x/needy_train.py", &needs),
        ("pyproject.toml", scripts),
        ("README.md", "x-train --lr 1\npython examples/train.py\n"),
    ];
    let (gates, told) = proposed(&files);
    let records: Vec<&str> = gates.iter().map(|(_, recording)| &*recording.script).collect();
    assert_eq!(records, ["x-train --lr 1", "python pretrain.py", "python examples/train.py"]);
    assert!(
        told.find("[gate.cli]") < told.find("[gate.pretrain]")
            && told.find("[gate.pretrain]") < told.find("[gate.train]"),
        "{told}"
    );
    assert_eq!(
        left_out(&files),
        [
            "x/needy_train.py (no README or docstring gives the required --data)",
            "examples/tutorial.py (no README runs it, and its name does not say that it trains)"
        ]
    );
    let many = ["a_train.py", "b_train.py", "c_train.py", "d_train.py"].map(|name| (name, PROGRAM));
    assert_eq!(left_out(&many), ["d_train.py (others come first)"]);
}

#[test]
fn the_python_of_the_readme_is_that_of_the_gate() {
    let pins = ("requirements.txt", "numpy==1.21.0\n");
    let readme = ("README.md", "conda create -n x python=3.9\n");
    assert_eq!(recorded(&[TRAIN, pins, readme]).python.as_deref(), Some("3.9"));
    assert_eq!(recorded(&[TRAIN, pins]).python, None);
}

#[test]
fn a_configuration_in_its_other_place_stays_the_only_one() {
    let place = repository(&[(".github/ptmem.toml", "# mine\n")]);
    let told = init(place.path(), &[]);
    assert!(told.contains("kept     .github/ptmem.toml (it exists already)\n"), "{told}");
    assert!(!place.path().join("ptmem.toml").exists());
}

#[test]
fn nothing_is_overwritten() {
    let place = repository(&[("ptmem.toml", "# mine\n")]);
    let told = init(place.path(), &[]);
    assert!(
        told.contains("kept     ptmem.toml (it exists already)\nwritten  .github/workflows/memory.yml\n"),
        "{told}"
    );
    assert_eq!(read(place.path(), "ptmem.toml"), "# mine\n");
}

#[test]
fn a_repository_of_gitlab_gets_no_workflow_of_github() {
    let place = repository(&[TRAIN, (".gitlab-ci.yml", "")]);
    let told = init(place.path(), &[]);
    assert!(told.contains("  copy the jobs of docs/examples/gitlab.yml of ptmem\n"), "{told}");
    assert!(!place.path().join(".github").exists() && place.path().join("ptmem.toml").exists());
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = repository(&[TRAIN]);
    let told = init(place.path(), &["--dry-run"]);
    assert!(told.contains("would write  ptmem.toml\n# What") && told.contains("[gate.train]\n"), "{told}");
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn mistakes_are_named_and_nothing_is_written() {
    let place = repository(&[("a.txt", "text\n")]);
    for (arguments, expected) in [
        (&["init", "--folder", "nowhere"][..], "no such folder"),
        (&["init", "--folder", "a.txt"], "is a file; expected a folder"),
        (&["init", "--try"], "needs Linux, and a Python on the path with PyTorch"),
        (&["doctor", "a.txt"], "this looks like text"),
    ] {
        let output = ptmem(place.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(!place.path().join("ptmem.toml").exists());
}

#[cfg(all(target_os = "linux", feature = "simulate"))]
mod tries {
    use std::env;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;
    use crate::support::tool::{git, python};

    /// What init says with a Python on the path, whose folder is also that of the user.
    fn tried(files: &[(&str, &str)], python: PathBuf) -> (String, Vec<(String, Recording)>) {
        let place = tempfile::tempdir().unwrap();
        git(place.path(), &["init", "--quiet"]);
        for (name, content) in files {
            fs::write(place.path().join(name), content).unwrap();
        }
        let others = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([python.clone()].into_iter().chain(env::split_paths(&others))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.arg("init").current_dir(place.path()).env("PATH", path);
        let output = command.envs([("HOME", &python), ("XDG_CACHE_HOME", &python)]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), gates(place.path()))
    }

    /// A folder with a Python that seems to have PyTorch, and fails as the programs that it runs say, once it finds the modules of the
    /// repository.
    fn fake(place: &TempDir) -> PathBuf {
        let finds = "case :$PYTHONPATH: in *:\"$PWD\":*) ;; *) echo \"ModuleNotFoundError: No module named 'own'\" >&2; exit 1 ;; esac";
        seeming(place, &format!("{finds}\ngrep '^# ' \"$1\" | cut -c 3- >&2\nexit 1"))
    }

    /// A folder with a Python that seems to have PyTorch, and does what a script says with programs.
    fn seeming(place: &TempDir, script: &str) -> PathBuf {
        let path = place.path().join("python");
        let looks = "[ \"$1\" = -c ] && echo \"$0\" && echo \"$HOME/.local\" && exit 0";
        fs::write(&path, format!("#!/bin/sh\n{looks}\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        place.path().to_owned()
    }

    #[test]
    fn a_program_that_is_tried_has_a_home_of_its_own_and_the_packages_of_the_user() {
        let place = tempfile::tempdir().unwrap();
        let says = "touch \"$HOME/left\" \"$TMPDIR/left\"\necho \"packages in $PYTHONUSERBASE, cache $XDG_CACHE_HOME\" >&2\nexit 1";
        let home = seeming(&place, says);
        let told = tried(&[TRAIN], home.clone()).0;
        assert!(told.contains(&format!("not recorded: packages in {}/.local, cache)", home.display())), "{told}");
        let left: Vec<_> = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["python"], "{told}");
    }

    #[test]
    fn a_program_that_fails_is_left_out_and_one_that_lacks_a_module_stays_if_none_records() {
        let traceback = "# Traceback (most recent call last):\n#   File \"train.py\"\n# KeyError: 'x'\n";
        let fails = format!("{PROGRAM}{traceback}# \n# Set HYDRA_FULL_ERROR=1 for more\n");
        let lacks = format!("{PROGRAM}# ModuleNotFoundError: No module named 'tqdm.auto'\n");
        let place = tempfile::tempdir().unwrap();
        let (told, gates) = tried(&[("train.py", &fails), ("pretrain.py", &lacks)], fake(&place));
        assert!(told.contains("  left out: train.py (tried, and not recorded: KeyError: 'x')\n"), "{told}");
        assert!(told.contains("; not tried: this environment lacks the module tqdm.auto\n"), "{told}");
        assert_eq!(gates[0].0, "pretrain");
        let (told, gates) = tried(&[("train.py", &fails)], fake(&place));
        assert_eq!(gates[0].1.script, "python record_memory.py", "{told}");
    }

    #[test]
    fn a_program_that_records_nothing_in_time_stays_if_none_records() {
        let place = tempfile::tempdir().unwrap();
        let folder = fake(&place);
        fs::write(folder.join("timeout"), "#!/bin/sh\nexit 124\n").unwrap();
        fs::set_permissions(folder.join("timeout"), fs::Permissions::from_mode(0o755)).unwrap();
        // A program that only downloads data does not become a gate.
        let files = [("train.py", PROGRAM), ("load.py", SAMPLER), ("README.md", "python load.py\n")];
        let (told, gates) = tried(&files, folder);
        assert!(told.contains("; tried, and not recorded after 60 s\n"), "{told}");
        assert!(told.contains("  left out: load.py (tried, and not recorded after 60 s)\n"), "{told}");
        assert_eq!(gates.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["train"], "{told}");
    }

    const STEP: &str = "import torch\nmodel = torch.nn.Linear(64, 64).cuda()\n";
    const TRAINS: &str = "optimizer = torch.optim.SGD(model.parameters(), lr=1)\nfor _ in range(9):\n    \
                          model(torch.rand(8, 64, device='cuda')).sum().backward()\n    optimizer.step()\n";

    #[test]
    #[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
    fn what_records_with_torch_is_kept() {
        let by_hand =
            format!("{STEP}for _ in range(2):\n    model(torch.rand(8, 64, device='cuda')).sum().backward()\n");
        let lacks = format!("import surely_not_there\n{STEP}{TRAINS}");
        let files = [
            ("a_train.py", &*format!("{STEP}{TRAINS}")),
            ("b_train.py", &by_hand),
            ("c_train.py", &format!("{STEP}raise KeyError('x')\n{TRAINS}")),
            ("d_train.py", &lacks),
            ("e_train.py", &format!("{STEP}{TRAINS}").replace("cuda", "cpu")),
            (
                "f_train.py",
                &format!("{STEP}{TRAINS}").replace("cuda()", "to('cuda' if 0 else 'cpu')").replace("'cuda')", "'cpu')"),
            ),
        ];
        let (told, gates) = tried(&files, python().parent().unwrap().to_owned());
        let steps: Vec<(&str, &str)> = gates.iter().map(|(name, recording)| (&**name, &*recording.steps)).collect();
        assert_eq!(steps, [("a_train", "1..3"), ("b_train", "all")], "{told}");
        for part in [
            "; a try recorded it within ",
            "left out: c_train.py (tried, and not recorded: KeyError: 'x')\n",
            "left out: d_train.py (not tried: this environment lacks the module surely_not_there)\n",
            "left out: e_train.py (neither it nor what it imports names a GPU)\n",
            "left out: f_train.py (tried, and not recorded: not recorded: the command never used a CUDA device from Python; ",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
}

#[test]
fn the_doctor_tells_good_recordings_from_bad_ones() {
    let place = tempfile::tempdir().unwrap();
    let cases: [(&str, i32, &[&str]); 6] = [
        ("after.pkl", 0, &["ok     history", "weak   stacks", "from the start", "fit to gate"]),
        ("leak.pkl", 0, &["ok     steps", "ok     figures", "exact to the byte"]),
        ("oom.pkl", 3, &["unfit  memory", "memory ran out", "not fit to gate"]),
        ("wrapped.pkl", 3, &["unfit  beginning", "max_entries=10_000_000"]),
        ("state-only.pkl", 3, &["unfit  history", "not enabled=\"state\""]),
        (
            "torch-2.0.pkl",
            3,
            &["weak   clock", "unfit  beginning", "weak   figures    lower bounds", "(PyTorch before 2.3)"],
        ),
    ];
    for (name, code, parts) in cases {
        let output = ptmem(place.path(), &["doctor", &fixture(name)]);
        let told = text(&output.stdout);
        for part in parts {
            assert!(told.contains(part), "{name}: {part}: {told}");
        }
        assert_eq!(output.status.code(), Some(code), "{name}: {told}");
        // A state has neither a beginning nor steps nor times.
        let of_history = ["beginning", "steps", "clock"].map(|aspect| told.contains(&format!("  {aspect} ")));
        assert_eq!(of_history, [name != "state-only.pkl"; 3], "{name}: {told}");
    }
    let saved = ptmem(place.path(), &["profile", &fixture("leak.pkl"), "-o", "saved.json"]);
    assert_eq!(saved.status.code(), Some(0));
    let told = text(&ptmem(place.path(), &["doctor", "saved.json"]).stdout);
    assert!(told.contains("ok     history") && told.contains("ok     steps      12 by ProfilerStep#*"), "{told}");
}

/// The verdict of the doctor is that of a gate: without a peak it is inconclusive, and runs may exhaust memory where they say so.
#[test]
fn the_doctor_knows_what_a_gate_can_judge() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("end.json"), "{\"allocated_bytes.all.current\": 50000000}").unwrap();
    let output = ptmem(place.path(), &["doctor", "end.json"]);
    assert_eq!(output.status.code(), Some(3));
    assert_reads!(text(&output.stdout) => str![[r#"
unfit  history    only figures, without the peak
                  -> add the peak, as torch.cuda.memory_stats()["allocated_bytes.all.peak"] states it, or limit only metrics that the file has

not fit to gate: mend what is unfit before you trust a verdict on the peak
"#]]);
    fs::write(place.path().join("peak.json"), "{\"allocated_bytes.all.peak\": 50000000}").unwrap();
    assert_eq!(ptmem(place.path(), &["doctor", "peak.json"]).status.code(), Some(0));
    fs::write(place.path().join("ptmem.toml"), "allow-oom = true\n").unwrap();
    let output = ptmem(place.path(), &["doctor", &fixture("oom.pkl")]);
    assert_eq!(output.status.code(), Some(0));
    let told = text(&output.stdout);
    let memory = told.lines().find(|line| line.contains("  memory "));
    assert_reads!(memory.unwrap_or_default() => str!["ok     memory     memory ran out 1 time, as allow-oom in ptmem.toml permits"]);
}

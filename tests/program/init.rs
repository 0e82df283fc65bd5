//! `ptmem init` in repositories of several kinds, and `ptmem doctor` on good and bad recordings.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::tool::{git, ptmem, say, text};

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

#[test]
fn a_repository_gets_the_files_of_a_gate() {
    let place = repository(&[
        ("pyproject.toml", "[project]\nname = \"x\"\n"),
        ("src/x/train.py", "import torch\n"),
        ("venv/lib/train.py", "import torch\n"),
        ("venv/pyvenv.cfg", ""),
        ("notes/train.py", "no such thing\n"),
    ]);
    fs::create_dir_all(place.path().join("src/x")).unwrap();
    // From a folder within.
    let told = init(&place.path().join("src"), &[]);
    for part in ["for GitHub Actions, found no program to record\n", "written  ptmem.toml", "Next:"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    // Each side installs its own code: nothing is installed before the action.
    let install =
        "        with:\n          install: |\n            pip install uv\n            ptmem pip install torch .\n";
    for part in
        ["runs-on: ubuntu-latest", install, "record: python record_memory.py", "gpu: a100", "uses: OWNER/ptmem@v0"]
    {
        assert!(workflow.contains(part), "{part}: {workflow}");
    }
    assert!(!workflow.contains("- run:"), "{workflow}");
    // A push to the main branch keeps its profile; only that job may write.
    for part in
        ["  push:\n    branches: [main, master]\n", "    if: github.event_name == 'push'\n", "contents: write # "]
    {
        assert_eq!(workflow.matches(part).count(), 1, "{part}: {workflow}");
    }
    assert_eq!(workflow.matches(install).count(), 2, "{workflow}");
    // The token of the job that runs the code can only read; the one that comments runs none.
    let jobs: Vec<&str> = workflow.split("\n  comment:\n").collect();
    assert!(!jobs[0].contains("write") && !jobs[1].contains("ref:"), "{workflow}");
    for part in ["comment-artifact: ptmem-comment\n", "    needs: memory\n", "      - uses: OWNER/ptmem/comment@v0\n"] {
        assert_eq!(workflow.matches(part).count(), 1, "{part}: {workflow}");
    }
    for placeholder in [
        "OF_BASE",
        "COMMENTER",
        "STRATEGY",
        "OF_EACH",
        "NAMED",
        "UPLOADED",
        "INSTALL",
        "INPUTS",
        "RECORD",
        "RUNNER",
        "PLACE",
        "ACTION",
        "PUSH",
        "IF",
    ] {
        assert!(!workflow.contains(placeholder), "{placeholder}: {workflow}");
    }
    assert!(read(place.path(), "record_memory.py").contains("PTMEM_SNAPSHOT"));
    // Where all is well, the peak leads, which says most in one line.
    let brief = ptmem(place.path(), &["diff", &fixture("after.pkl"), &fixture("before.pkl"), "--format", "brief"]);
    assert!(text(&brief.stdout).contains("PASS: peak shrank 53.80 MiB"), "{}", text(&brief.stdout));
    // The configuration is valid as it is: a gate runs with it, and limits more than the peak.
    let gate = ptmem(place.path(), &["diff", &fixture("before.pkl"), &fixture("after.pkl"), "--format", "junit"]);
    assert_eq!(gate.status.code(), Some(1), "{}", text(&gate.stderr));
    for limit in ["name=\"peak within 5 %\"", "name=\"end within 5 % + 1.00 MiB\"", "aten::_softmax within 4.00 MiB\""]
    {
        assert!(text(&gate.stdout).contains(limit), "{limit}: {}", text(&gate.stdout));
    }
}

#[test]
fn dependencies_are_those_that_the_repository_pins() {
    let project = ("pyproject.toml", "[project]\nname = \"x\"\n");
    let locked = "--output-file locked.txt\n            ptmem pip install -r locked.txt .\n";
    for (files, install) in [
        (&[project, ("uv.lock", "")][..], locked),
        (&[("requirements.txt", "torch\n")], "            ptmem pip install torch -r requirements.txt\n"),
        (&[], "            ptmem pip install torch numpy\n"),
    ] {
        let place = repository(files);
        init(place.path(), &["--action", "./ptmem"]);
        let workflow = read(place.path(), ".github/workflows/memory.yml");
        // What comments is the Action of the base, not the one of the pull request.
        let comments = "          ref: ${{ github.event.pull_request.base.sha }}\n          persist-credentials: false\n\
                        \x20     - uses: ./ptmem/comment\n";
        for part in [install, "- uses: ./ptmem\n", comments] {
            assert!(workflow.contains(part), "{part}: {workflow}");
        }
    }
}

#[test]
fn the_recording_script_refuses_to_run_until_its_parts_are_written() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        say("skipped: no python3 to run the recording script");
        return;
    }
    let place = repository(&[("torch.py", FAKE_TORCH)]);
    init(place.path(), &[]);
    let run = || Command::new("python3").arg("record_memory.py").current_dir(place.path()).output().unwrap();
    let script = read(place.path(), "record_memory.py");
    let build = script.replace("    not_written(\"build\")", "    return [], []");
    let step = build.replace("    not_written(\"train_step\")", "    print('a step')");
    for (text_of_script, missing) in [(&script, "build"), (&build, "train_step"), (&step, "evaluate")] {
        fs::write(place.path().join("record_memory.py"), text_of_script).unwrap();
        let output = run();
        assert_eq!(output.status.code(), Some(1), "{missing}");
        let expected = format!(
            "record_memory.py: {missing}() is not filled in yet; fill it in, or remove it from \
                                PARTS\n"
        );
        assert_eq!(text(&output.stderr), expected);
    }
    let whole = step.replace("PARTS = [train_step, evaluate, generate]", "PARTS = [train_step]");
    fs::write(place.path().join("record_memory.py"), whole).unwrap();
    let output = run();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let expected = "on\na step\na step\non\nbegin train_step\na step\nend\ndump snapshot.pkl\n";
    assert_eq!(text(&output.stdout), expected);
}

/// The parts of PyTorch that the recording script calls.
const FAKE_TORCH: &str = "\
class Part:
    def __init__(self, name): print('begin', name)
    def __enter__(self): pass
    def __exit__(self, *_): print('end')

class profiler: record_function = Part

class cuda:
    class memory:
        def _record_memory_history(**_): print('on')
        def _dump_snapshot(path): print('dump', path)
";

/// A program that trains.
const PROGRAM: &str = "import argparse\nimport torch\nparser = argparse.ArgumentParser()\n\
                       model.cuda()\nparser.add_argument('--data', required=True)\n\
                       loss.backward()\nif __name__ == '__main__':\n    main()\n";

#[test]
fn a_program_is_recorded_as_it_is() {
    let tests = "      - uses: actions/setup-python@v5\n        with: { python-version: x }\n        run: |\n\
                 \x20         python -m pip install -e .[test] --upgrade\n          pip install ${{ matrix.extra }}\n\
                 \x20     - run: pytest tests\n      - run: pip install twine\n";
    let place = repository(&[
        ("pyproject.toml", "[project]\nname = \"x\"\nrequires-python = \">=3.8,<3.11\"\n"),
        (".github/workflows/tests.yml", tests),
        ("train.py", PROGRAM),
        (".gitignore", "*.log"),
    ]);
    let told = init(place.path(), &[]);
    for part in [
        "GitHub Actions, records train.py (argparse)\nPython 3.10: pyproject.toml\n",
        "installed as .github/workflows/tests.yml says\n",
        "added snapshot.pkl to .gitignore\n",
        "1. where the gate records train.py, add the arguments that it requires: --data\n",
        "2. try it: ptmem simulate --record snapshot.pkl,steps=1..8 -- python train.py\n",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    let inputs = "          python-version: '3.10' # pyproject.toml\n          install: |\n            pip install uv\n\
                  \x20           ptmem pip install torch\n            ptmem pip install .[test]\n          # It ends after the \
                  steps that are recorded.\n          record: python train.py\n          record-steps: 1..8\n";
    assert_eq!(workflow.matches(inputs).count(), 2, "{workflow}");
    assert!(!place.path().join("record_memory.py").exists());
    assert_eq!(read(place.path(), ".gitignore"), "*.log\nsnapshot.pkl\n");
    assert!(!init(place.path(), &[]).contains(".gitignore"));
    let version = init(place.path(), &["--print-python"]);
    assert_eq!(version, "3.10\n");
    // On a machine with a GPU, a script writes the snapshot.
    let real = repository(&[("train.py", PROGRAM)]);
    let told = init(real.path(), &["--runner", "gpu"]);
    assert!(told.contains("left out: train.py (argparse)\n") && told.contains("written  record_memory.py"), "{told}");
    // GitLab's job runs it as it is, too.
    let gitlab = repository(&[("train.py", PROGRAM), (".gitlab-ci.yml", "")]);
    init(gitlab.path(), &[]);
    let job = read(gitlab.path(), ".gitlab/ptmem.yml");
    let command = "        ptmem simulate --record \"$2,steps=1..8\" -- python train.py\n";
    assert!(job.contains(command) && job.contains("the base has no train.py"), "{job}");
}

#[test]
fn each_of_several_programs_has_a_gate_of_its_own() {
    let names = ["a.py", "b/train.py", "c.py", "d.py", "e.py"];
    let place = repository(&names.map(|name| (name, PROGRAM)));
    let told = init(place.path(), &[]);
    assert!(told.contains("records b/train.py (argparse), a.py (argparse), c.py (argparse)\n"), "{told}");
    assert!(told.contains("left out: d.py (argparse), e.py (argparse)\n"), "{told}");
    assert!(told.contains("; remove those that fail from the matrices of the workflow\n"), "{told}");
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    for (part, count) in [
        ("          - name: b-train\n            record: python b/train.py\n", 2),
        ("          name: ${{ matrix.name }}\n", 3),
        ("          record: ${{ matrix.record }}\n", 2),
        ("          comment-artifact: ptmem-comment-${{ matrix.name }}\n", 1),
        ("          name: ptmem-comment-${{ matrix.name }}\n", 1),
        ("        name: [b-train, a, c]\n", 1),
    ] {
        assert_eq!(workflow.matches(part).count(), count, "{part}: {workflow}");
    }
}

#[test]
fn programs_that_the_readme_runs_come_first() {
    let names = ["a.py", "b.py", "c.py", "d.py"];
    let readme = ("README.md", "    uv run python d.py --data x\n    python c.py --data x\n");
    let files: Vec<(&str, &str)> = names.map(|name| (name, PROGRAM)).into_iter().chain([readme]).collect();
    let told = init(repository(&files).path(), &[]);
    assert!(told.contains("records d.py (argparse), c.py (argparse), a.py (argparse)\n"), "{told}");
}

#[test]
fn programs_that_lack_their_data_on_a_runner_come_last_or_leave_the_script() {
    let lacking = PROGRAM.replace("required=True", "default='/datasets/imagenet'");
    let files = [("train.py", &*lacking), ("docs/train.py", PROGRAM), ("examples/a.py", "MNIST(download=True)\n")];
    let downloads = format!("{}{PROGRAM}", files[2].1);
    let told = init(repository(&[files[0], files[1], (files[2].0, &downloads)]).path(), &[]);
    assert!(told.contains("records examples/a.py (argparse), docs/train.py (argparse)\n"), "{told}");
    let left_out = "left out: train.py (argparse; its data /datasets/imagenet are not in the repository)\n";
    assert!(told.contains(left_out), "{told}");
    let told = init(repository(&files[..1]).path(), &[]);
    assert!(told.contains(left_out) && told.contains("written  record_memory.py"), "{told}");
    let raised = "{\"source\": [\n\"import torch\",\n\"loss.cuda().backward()\"],\n\"output_type\": \"error\"}";
    let told = init(repository(&[("1.ipynb", raised)]).path(), &[]);
    assert!(told.contains("left out: 1.ipynb (notebook; its saved output has an error)\n"), "{told}");
}

#[test]
fn of_a_workflow_only_the_job_that_tests_is_followed() {
    let tests = "jobs:\n  lint:\n    steps:\n      - run: pip install ruff\n  unit:\n    steps:\n      - run: |\n          pip install torch \
                 --index-url https://download.pytorch.org/whl/cpu\n          pip install -e .[test]\n          pytest tests\n";
    let place = repository(&[("setup.py", ""), (".github/workflows/ci.yml", tests), ("train.py", PROGRAM)]);
    init(place.path(), &[]);
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    let install =
        "            pip install uv\n            ptmem pip install torch\n            ptmem pip install .[test]\n";
    assert!(workflow.contains(install) && !workflow.contains("ruff"), "{workflow}");
}

#[test]
fn what_no_file_at_the_root_names_is_installed_by_the_files_and_imports_of_programs() {
    let program = format!("import yaml, utils\nfrom datasets import X\nfrom torchvision.datasets import Y\n{PROGRAM}");
    let notebook = "{\"cells\": [{\"source\": [\n  \"import torch\\n\",\n  \"import torchvision\\n\",\n  \"loss.cuda().backward()\"\n]}]}";
    for (files, install, told_of) in [
        (
            &[
                ("a/train.py", &*program),
                ("a/requirements.txt", "PyYAML\n"),
                ("a/datasets.py", ""),
                ("b.ipynb", notebook),
            ][..],
            "ptmem pip install torch -r a/requirements.txt torchvision\n",
            "installed as a/requirements.txt says\ninstalled for their imports: torchvision\n",
        ),
        (
            &[("1_mlp.ipynb", notebook), ("notes.ipynb", "{}")],
            "ptmem pip install torch numpy torchvision ipython ipywidgets nbformat\n",
            "records 1_mlp.ipynb (notebook)\nfound no file that states how to install the repository\n",
        ),
    ] {
        let place = repository(files);
        let told = init(place.path(), &[]);
        assert!(told.contains(told_of), "{told}");
        let workflow = read(place.path(), ".github/workflows/memory.yml");
        assert!(workflow.contains(install), "{workflow}");
    }
}

#[test]
fn what_tests_need_not_install_is_installed_for_programs() {
    let tests = "        run: |\n          pip install -r dev.txt\n          pytest tests\n";
    let extras = "[project]\nname = \"x\"\n[project.optional-dependencies]\nexamples = [\"tqdm\"]\n";
    let program = format!("import tqdm\n{PROGRAM}");
    let files = [(".github/workflows/tests.yml", tests), ("dev.txt", ""), ("a/train.py", &*program)];
    for (package, last) in [(extras, "            ptmem pip install . tqdm\n"), ("[tool.ruff]\n", "dev.txt tqdm\n")] {
        let place = repository(&[&files[..], &[("pyproject.toml", package)]].concat());
        init(place.path(), &[]);
        let workflow = read(place.path(), ".github/workflows/memory.yml");
        assert!(workflow.contains("install -r dev.txt") && workflow.contains(last), "{workflow}");
    }
}

#[test]
fn imports_of_the_repositorys_own_modules_are_installed() {
    let files = [
        ("requirements.txt", "torch\nhydra-core\n"),
        ("tools/train.py", &*format!("from lib.log import Log\nfrom omegaconf import x\nimport helper\n{PROGRAM}")),
        ("tools/helper.py", "def f():\n    import os, pandas as p\n"),
        ("lib/__init__.py", "from .part import x\nfrom . import other\n"),
        ("lib/part.py", "import einops\n"),
        ("lib/log.py", "from torch.utils.tensorboard import SummaryWriter\nimport wandb\n"),
        ("lib/unused.py", "import timm\n"),
        ("wandb/run/log.txt", ""),
    ];
    let place = repository(&files);
    let told = init(place.path(), &[]);
    assert!(told.contains("installed for their imports: einops, pandas, tensorboard, wandb\n"), "{told}");
}

/// Packages of that time import a part of setuptools that later releases lack.
#[test]
fn old_pins_get_the_setuptools_and_the_python_of_their_time() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("train.py"), PROGRAM).unwrap();
    fs::write(place.path().join("requirements.txt"), "wandb==0.13.5\n").unwrap();
    git(place.path(), &["init", "--quiet"]);
    git(place.path(), &["add", "."]);
    let mut commit = Command::new("git");
    commit.args(["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "pins"]);
    commit.current_dir(place.path()).env("GIT_COMMITTER_DATE", "2022-12-01T00:00:00Z");
    commit.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    assert!(commit.status().unwrap().success());
    let told = init(place.path(), &[]);
    assert!(
        told.contains("Python 3.11: requirements.txt pins packages of 2022\n") && !told.contains("setuptools"),
        "{told}"
    );
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    assert!(workflow.contains("ptmem pip install torch -r requirements.txt 'setuptools<82'\n"), "{workflow}");
    let of_its_time = "            export UV_EXCLUDE_NEWER=2023-04-01 # the repository and its pins are of that time\n";
    assert!(workflow.contains(of_its_time), "{workflow}");
    // A repository that goes on gets newer packages.
    fs::remove_file(place.path().join(".github/workflows/memory.yml")).unwrap();
    commit.args(["--all", "--allow-empty"]).env_remove("GIT_COMMITTER_DATE");
    fs::write(place.path().join("train.py"), format!("{PROGRAM}\n")).unwrap();
    assert!(commit.status().unwrap().success());
    init(place.path(), &[]);
    assert!(!read(place.path(), ".github/workflows/memory.yml").contains("UV_EXCLUDE_NEWER"));
}

#[test]
fn nothing_is_overwritten() {
    let place = repository(&[("ptmem.toml", "# mine\n"), ("record_memory.py", "mine\n")]);
    let told = init(place.path(), &[]);
    assert!(told.contains("kept     ptmem.toml"), "{told}");
    assert_eq!(read(place.path(), "ptmem.toml"), "# mine\n");
    assert_eq!(read(place.path(), "record_memory.py"), "mine\n");
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    let again = init(place.path(), &["--runner", "gpu"]);
    assert!(!again.contains("written"), "{again}");
    assert_eq!(read(place.path(), ".github/workflows/memory.yml"), workflow);
}

#[test]
fn a_runner_with_a_gpu_compares_with_the_stored_profile() {
    let place = repository(&[("requirements.txt", "torch\n")]);
    init(place.path(), &[&fixture("before.pkl"), "--runner", "gpu: [a]"]);
    let workflow = read(place.path(), ".github/workflows/memory.yml");
    for part in ["runs-on: 'gpu: [a]'", "pip install torch -r requirements.txt", "before: baseline.ptmem.json"] {
        assert!(workflow.contains(part), "{part}: {workflow}");
    }
    let same = ptmem(place.path(), &["diff", "baseline.ptmem.json", &fixture("before.pkl"), "--max-growth", "0"]);
    assert_eq!(same.status.code(), Some(0), "{}", text(&same.stdout));
    let real = repository(&[]);
    init(real.path(), &["--runner", "gpu"]);
    assert!(read(real.path(), ".github/workflows/memory.yml").contains("gpu: real"));
    // The profile in the repository has a history of its own, so no branch keeps one.
    assert!(!workflow.contains("push") && workflow.matches("if:").count() == 1, "{workflow}");
}

#[test]
fn a_repository_of_gitlab_gets_its_job() {
    let place = repository(&[(".git/config", "[remote \"origin\"]\n\turl = git@gitlab.com:a/b.git\n")]);
    let told = init(place.path(), &["--runner", "gpu"]);
    assert!(told.contains("GitLab CI"), "{told}");
    let job = read(place.path(), ".gitlab/ptmem.yml");
    assert!(
        job.contains("  tags: [gpu]\n") && job.contains("        PTMEM_SNAPSHOT=$2 python record_memory.py"),
        "{job}"
    );
    assert!(!place.path().join(".github").exists());
}

#[test]
fn a_dry_run_writes_nothing() {
    let place = repository(&[]);
    let told = init(place.path(), &[&fixture("before.pkl"), "--dry-run"]);
    assert!(told.contains("would write  record_memory.py\n\"\"\"Records"), "{told}");
    assert!(told.contains("would write  baseline.ptmem.json"), "{told}");
    let left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".git"]);
}

#[test]
fn mistakes_are_named_and_nothing_is_written() {
    let place = repository(&[("a.txt", "text\n")]);
    for (arguments, expected) in [
        (&["init", "missing.pkl"][..], "no such file"),
        (&["init", "a.txt"], "this looks like text"),
        (&["init", "--folder", "nowhere"], "no such folder"),
        (&["init", "--folder", "a.txt"], "is a file; expected a folder"),
        (&["doctor", "a.txt"], "this looks like text"),
    ] {
        let output = ptmem(place.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(!place.path().join("ptmem.toml").exists());
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
        ("torch-2.0.pkl", 0, &["weak   clock", "not in the file (PyTorch before 2.3)"]),
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

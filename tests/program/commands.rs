//! The commands that readers of README.md, docs/getting-started.md and CONTRIBUTING.md type: each block of them is typed by
//! a test, or the list says why not.

use std::fs;
use std::path::Path;
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use crate::support::fixtures;
use crate::support::tool::{python, text};

/// How a block of commands is tested.
enum Typed {
    /// A test below types it.
    Here,
    /// A script reads the page and types it.
    By(&'static str),
    /// Nothing types it, for a reason.
    Nowhere(&'static str),
}

use Typed::{By, Here, Nowhere};

/// The first line of each block, in the order of the page.
const README: &[(&str, Typed)] = &[
    ("ptmem gate", Nowhere("it needs a repository and a base; tests of the command have both")),
    ("cargo run", By(".ci/readme")),
    ("cargo install", By(".ci/readme")),
    ("ptmem simulate", Here),
    ("ptmem profile", Here),
    ("ptmem diff", Here),
];

const GETTING_STARTED: &[(&str, Typed)] = &[
    ("mkdir small-model", By(".ci/getting-started")),
    ("ptmem pip install", By(".ci/getting-started")),
    ("cat > train.py", By(".ci/getting-started")),
    ("ptmem init", By(".ci/getting-started")),
    ("cat > record_memory.py", By(".ci/getting-started")),
    ("sed -i", By(".ci/getting-started")),
    ("ptmem simulate", By(".ci/getting-started")),
    ("git add .", By(".ci/getting-started")),
    ("git switch", By(".ci/getting-started")),
    ("ptmem gate", By(".ci/getting-started")),
    ("for growth in", By(".ci/getting-started")),
];

const CONTRIBUTING: &[(&str, Typed)] = &[
    ("git clone", Nowhere(".ci/run clones, and types the second line with those of README.md")),
    (".ci/run", Nowhere("it is what runs this test, and a job of .github/workflows/ci.yml")),
    ("TRYCMD=overwrite", Nowhere("it rewrites the pages; without the variable the same test compares them")),
    ("cargo bench", Nowhere("it measures for minutes; .ci/run compiles the same with clippy")),
];

fn read(page: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
}

/// The blocks of commands of a page.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut in_block = false;
    for event in Parser::new(&read(page)) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if &*language == "sh" => {
                in_block = true;
                blocks.push(String::new());
            }
            Event::Text(line) if in_block => blocks.last_mut().unwrap().push_str(&line),
            Event::End(_) => in_block = false,
            _ => {}
        }
    }
    blocks
}

#[test]
fn each_block_of_commands_is_typed_or_says_why_not() {
    for (page, listed) in
        [("README.md", README), ("docs/getting-started.md", GETTING_STARTED), ("CONTRIBUTING.md", CONTRIBUTING)]
    {
        let blocks = blocks(page);
        assert_eq!(blocks.len(), listed.len(), "{page}: each block of sh is listed here: {blocks:#?}");
        for (block, (first, typed)) in blocks.iter().zip(listed) {
            assert!(block.starts_with(first), "{page}: expected a block that begins with '{first}', found:\n{block}");
            match typed {
                Here => {}
                By(script) => assert!(read(script).contains(page), "{script} does not read {page}"),
                Nowhere(reason) => assert!(!reason.is_empty()),
            }
        }
    }
}

/// Types blocks of the README in a folder, in which they are to succeed.
fn type_blocks(folder: &Path, which: &[&str]) {
    for block in blocks("README.md").iter().filter(|block| which.iter().any(|first| block.starts_with(first))) {
        let mut shell = Command::new("bash");
        let ours = Path::new(env!("CARGO_BIN_EXE_ptmem")).parent().unwrap();
        let of_python = std::env::var_os("PTMEM_TEST_PYTHON").unwrap_or_default();
        let others = std::env::var_os("PATH").unwrap_or_default();
        let mut path = vec![ours.to_owned(), Path::new(&of_python).parent().unwrap_or(ours).to_owned()];
        path.extend(std::env::split_paths(&others));
        shell.current_dir(folder).env("PATH", std::env::join_paths(path).unwrap()).args(["-euc", block]);
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{block}{}{}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn a_profile_is_kept_and_compared_as_the_readme_says() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixtures::folder().join("after.pkl"), folder.path().join("snapshot.pkl")).unwrap();
    type_blocks(folder.path(), &["ptmem profile", "ptmem diff"]);
}

#[cfg(unix)]
#[test]
fn the_demo_replays_a_pull_request_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/run.sh");
    let output = Command::new(demo)
        .arg(folder.path().join("repository"))
        .env("PTMEM", env!("CARGO_BIN_EXE_ptmem"))
        .env_remove("GITHUB_WORKSPACE")
        .output()
        .unwrap();
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}{}", text(&output.stderr));
    for words in
        ["where this change writes `weights = scores.float().softmax(dim=-1)` (model.py:40)", "> 40  weights = "]
    {
        assert!(report.contains(words), "{report}");
    }
    let comment = fs::read_to_string(folder.path().join("repository/comment.md")).unwrap();
    assert!(comment.starts_with("<!-- ptmem:default -->\n### ❌ FAIL: train: peak grew 53.80 MiB"), "{comment}");
    assert!(folder.path().join("repository/report.html").exists());
}

const TRAINING: &str = "\
import torch

model = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    model(torch.rand(64, 512, device='cuda')).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
";

#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_step_is_recorded_with_torch_as_the_readme_says() {
    python();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.py"), TRAINING).unwrap();
    type_blocks(folder.path(), &["ptmem simulate", "ptmem profile", "ptmem diff"]);
}

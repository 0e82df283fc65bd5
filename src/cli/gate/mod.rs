//! `ptmem gate`: records the base and the working tree, or reads what was recorded elsewhere, and judges every gate.

mod arguments;
mod base;
mod ci;
mod gates;
mod ignored;
mod of_base;
mod own_tree;
mod push;
mod repeat;
mod results;
mod rules;
mod secrets;
mod sides;
mod update;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use ptmem::config::GateSource;

use super::config;
use super::git::{self, Repository};
use super::output::Output;
use super::place::StartFolder;
use super::recorder::Recorder;
use super::recorder::process::Hold;
use super::recorder::tree::Worktree;
pub(crate) use arguments::GateArguments;
use base::Occasion;
use ci::CiFolder;
use gates::Gates;
use sides::Recordings;

pub(super) fn run(arguments: &GateArguments, output: &Output) -> Result<ExitCode> {
    git::allow_fetching();
    let folder = arguments.folder().map(|path| CiFolder::make(path, arguments.comment)).transpose()?;
    let masked = folder.as_ref().map(|folder| folder.masked(output));
    let output = masked.as_ref().unwrap_or(output);
    let answer = match &arguments.head {
        Some(head) => answer_at(head, arguments, folder.as_ref(), output),
        None => answer(StartFolder::here(), None, arguments, folder.as_ref(), output),
    };
    match (&folder, answer) {
        (Some(folder), Err(error)) => {
            folder.could_not_run(&error)?;
            Err(folder.masked_error(&error))
        }
        (_, answer) => answer,
    }
}

/// Judges the checkout around a place. Whoever made that checkout holds the recorder.
fn answer(
    place: StartFolder,
    recorder: Option<Recorder>,
    arguments: &GateArguments,
    folder: Option<&CiFolder>,
    output: &Output,
) -> Result<ExitCode> {
    let loaded = config::load_at(&place, &arguments.config)?;
    let rules = arguments.gates(&place, &loaded)?;
    let is_recorded = rules.values().any(|gate| matches!(gate.source, GateSource::Recorded(_)));
    let needs_base = is_recorded || arguments.base.is_some();
    let occasion = match arguments.repeat {
        Some(count) => Occasion::Repeated(count),
        None => match base::occasion(&place, arguments.base.as_deref(), arguments.head.as_deref()) {
            // Files are compared without a repository, too.
            Err(error) if !needs_base => Occasion::WithoutBase(error),
            occasion => occasion?,
        },
    };
    let recorder = match recorder {
        None if is_recorded => Some(recorder_of(&Repository::find(&place)?)?),
        other => other,
    };
    let recordings = recorder
        .map(|recorder| Recordings::new(recorder, &place, !arguments.no_cache, arguments.head.clone()))
        .transpose()?;
    let gates = Gates { arguments, place, loaded: &loaded, rules, recordings, folder, output };
    match occasion {
        Occasion::Repeated(count) => gates.repeat(count),
        // A stored before is rewritten from its after, as in a local run.
        Occasion::Push if arguments.update => gates.judge(Err(anyhow!("a push has no commit to compare with"))),
        Occasion::Push => gates.pushed(),
        Occasion::Change(base) => gates.judge(Ok(&base)),
        Occasion::WithoutBase(error) => gates.judge(Err(error)),
    }
}

/// Keeps the recordings of a repository.
fn recorder_of(repository: &Repository) -> Result<Recorder> {
    let mut key = DefaultHasher::new();
    repository.root.hash(&mut key);
    Recorder::open("gate", key.finish())
}

/// Judges another commit, in a worktree: paths of files in `ptmem.toml` begin there, those of the command line here.
fn answer_at(head: &str, arguments: &GateArguments, folder: Option<&CiFolder>, output: &Output) -> Result<ExitCode> {
    let _hold = Hold::new();
    let here = StartFolder::here();
    let repository = Repository::find(&here)?;
    let commit =
        git::commit(&mut here.git(), head).with_context(|| format!("--head {head}: there is no such commit here"))?;
    let recorder = recorder_of(&repository)?;
    let tree = Worktree::at(&repository.root, recorder.place("head"));
    tree.check_out(&commit)?;
    let own = tree.path.join(&repository.below);
    let answer = if own.is_dir() {
        answer(StartFolder::at(own), Some(recorder), arguments, folder, output)
    } else {
        Err(anyhow!("--head {head}: it lacks the working directory"))
    };
    tree.remove();
    answer
}

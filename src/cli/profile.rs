//! `ptmem profile`: writes the compact profile of a snapshot.

use std::process::ExitCode;

use anyhow::{Result, bail};
use ptmem::profile::{self, Kind, Moment, saved};

use super::args::{self, ProfileArguments};
use super::input::{self, require_moment};
use super::{config, output};

pub(super) fn run(arguments: ProfileArguments, output: &output::Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let rules = args::rules(&config, &arguments.strip_prefix);
    let options = profile::Options {
        at: arguments.at,
        rules,
        device: arguments.device,
        max_input: arguments.input.max_input(),
        allocator_settings: arguments.input.allocator_settings(&config),
        ..profile::Options::default()
    };
    if matches!(options.at, Moment::Aligned(_)) {
        bail!("--at aligned is a moment of two snapshots, for 'ptmem diff'; expected another one");
    }
    output::require_folder(&arguments.output)?;
    let mut profile = input::profile(&arguments.snapshot, &options)?;
    input::require_whole_groups(&profile)?;
    // A profile of a profile keeps the same moment.
    if let (Some(at), Moment::Peak) = (profile.kept.clone(), &options.at) {
        if arguments.snapshot.as_os_str() == "-" {
            bail!("standard input: the profile also keeps the stacks at {at}; add --at {at} to keep them");
        }
        profile = input::profile(&arguments.snapshot, &profile::Options { at, ..options })?;
    }
    require_moment(&profile)?;
    if profile.source.kind != Kind::Profile && output::is_same_file(&arguments.snapshot, &arguments.output) {
        bail!("{}: is the snapshot itself; expected another file to write to", arguments.output.display());
    }
    let bound = saved::Bound { top: arguments.top, min_bytes: arguments.min_bytes.0 }.and(profile.bound);
    output.write(&arguments.output, &saved::text_of(&profile, bound, &profile.raises))?;
    Ok(ExitCode::SUCCESS)
}

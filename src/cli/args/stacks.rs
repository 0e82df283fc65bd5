//! The stacks that are reported.

use anyhow::{Result, bail};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ptmem::config::Config;
use ptmem::profile::{self, Moment};
use ptmem::report::Format;
use ptmem::stack::{GroupBy, Rules};

use super::InputArguments;
use super::view::View;

/// The moment whose stacks are reported, and the grouping of these stacks.
#[derive(Debug, Args)]
pub(crate) struct Stacks {
    /// Moment of the stack totals: peak, baseline, end, oom (memory first ran out), event:N, time:SECONDS, or
    /// phase:NAME[#N]:start, :peak or :end (without #N the occurrence with the highest peak). A comparison takes aligned
    /// unless told otherwise: the peak of the after, and where the before does the same [default: peak]
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
    /// Take the highest point between two moments instead, such as phase:forward#2:start..phase:backward#2:end
    #[arg(long, value_name = "MOMENT..MOMENT", conflicts_with = "at", value_parser = Moment::between)]
    between: Option<Moment>,
    #[command(flatten)]
    pub(crate) grouping: Grouping,
}

impl Stacks {
    /// The moment that was asked for.
    pub(crate) fn moment(&self) -> Option<Moment> {
        self.between.as_ref().or(self.at.as_ref()).cloned()
    }

    /// Options to compute a profile that is not compared, and whose addresses may be kept where it is no rank of a job.
    pub(crate) fn options_of_one(&self, config: &Config, view: &View, is_rank: bool) -> Result<profile::Options> {
        if let Some(Moment::Aligned(_)) = self.at {
            bail!("--at aligned is a moment of two snapshots, for 'ptmem diff'; expected another one");
        }
        let layout = !is_rank && view.formats().any(Format::has_pictures);
        Ok(profile::Options { layout, ..self.profile_options(config, view) })
    }

    /// Options to compute a profile that holds these stacks.
    pub(crate) fn profile_options(&self, config: &Config, view: &View) -> profile::Options {
        let reading = self.grouping.reading(config, &view.input);
        profile::Options { at: self.moment().unwrap_or_default(), device: view.device, ..reading }
    }
}

/// The definition of one stack, and how its frames are named.
#[derive(Debug, Args)]
pub(crate) struct Grouping {
    /// What counts as one stack [default: stack]
    #[arg(long, value_enum, value_name = "GROUPING")]
    group_by: Option<GroupBy>,
    /// Keep the numbers of layers in the paths of modules, down to this level: 1 shows decoder.layers.3.mlp for
    /// decoder.layers.*.mlp
    #[arg(long, value_name = "LEVELS", default_value_t = 0, hide_default_value = true)]
    unfold: u32,
    /// Show your code relative to this folder instead of the root of the checkout. Repeatable
    #[arg(long, value_name = "FOLDER", value_parser = NonEmptyStringValueParser::new())]
    strip_prefix: Vec<String>,
}

impl Grouping {
    /// The options by which a file is read. What the command line does not say, the configuration does.
    pub(crate) fn reading(&self, config: &Config, input: &InputArguments) -> profile::Options {
        profile::Options {
            group_by: self.group_by.or(config.group_by).unwrap_or_default(),
            unfold: self.unfold,
            rules: rules(config, &self.strip_prefix),
            ..input.reading(config)
        }
    }
}

/// The rules of the configuration; folders on the command line take the place of those there.
pub(crate) fn rules(config: &Config, strip_prefix: &[String]) -> Rules {
    let mut rules = config.rules.clone();
    if !strip_prefix.is_empty() {
        rules.strip_prefix = strip_prefix.to_vec();
    }
    rules
}

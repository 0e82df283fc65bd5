//! The kinds of limits: a table with a row for each.

use ptmem_trace::profile::{Metric, Point, Serving};
use ptmem_trace::trace::Measure;

use self::GrowthPlace::{Device, Ranks, Sides, Unlimited};
use self::NamedThing::{Module, Phase, Pool, Stack};
use self::NeededPart::{Dump, History, Nothing, Start};
use self::Patterns::{Allowed, Missing, Required};

/// What patterns of limits and of `[[accept]]` name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedThing {
    /// A call stack.
    Stack,
    /// A phase.
    Phase,
    /// A module.
    Module,
    /// The private pools of one name.
    Pool,
}

impl NamedThing {
    /// The word for it in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Stack => "stack",
            Phase => "phase",
            Module => "module",
            Pool => "private pool",
        }
    }

    /// Its key in `[[accept]]`.
    pub fn key(self) -> &'static str {
        match self {
            Stack => "pattern",
            Phase => "phase",
            Module => "module",
            Pool => "pool",
        }
    }
}

/// The way in which `[[accept]]` names growth of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedBy {
    /// With `metric`.
    Metric,
    /// With a pattern of such things.
    Name(NamedThing),
    /// Its growth is not accepted, for this reason.
    Nothing(&'static str),
}

/// Whether limits of a kind name what they are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patterns {
    /// There is one figure only.
    Missing,
    /// `METRIC` is about all, `METRIC:GLOB` about some.
    Allowed(NamedThing),
    /// `METRIC:GLOB` only: a limit on all modules would count the parts of each repeatedly.
    Required(NamedThing),
}

/// The place where limits on growth apply, in the order in which messages list the kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GrowthPlace {
    /// On each device.
    Device,
    /// Once for both sides.
    Sides,
    /// Once for all ranks.
    Ranks,
    /// Nowhere: no limit names the kind.
    Unlimited,
}

/// The part of a recording from which a figure is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NeededPart {
    /// All of it: the figure is a peak, or at one.
    History,
    /// The start of the recording.
    Start,
    /// The state at the dump.
    Dump,
    /// No part of a recording.
    Nothing,
}

/// All that distinguishes a kind, except for its rule.
#[derive(Debug, Clone, Copy)]
struct KindRow {
    name: &'static str,
    patterns: Patterns,
    growth: GrowthPlace,
    /// Whether there are absolute limits.
    is_maximum: bool,
    /// The reason why growth is not accepted, if it is not.
    unaccepted: Option<&'static str>,
    counter: Option<Measure>,
    needs: NeededPart,
    description: &'static str,
}

macro_rules! kinds {
    ($($(#[$attribute:meta])* $kind:ident: $name:literal, $patterns:expr, $growth:expr, $is_maximum:expr,
    $unaccepted:expr, $counter:expr, $needs:expr, $description:literal;)*) => {
        /// The kind of thing that a limit, a check or accepted growth is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum LimitKind {
            /// A figure of a device.
            Metric(Metric),
            /// A figure of a server.
            Serving(Serving),
            $(#[doc = $description] $(#[$attribute])* $kind,)*
        }

        impl LimitKind {
            /// The kinds besides figures, which have tables of their own.
            const OTHERS: &'static [Self] = &[$(Self::$kind),*];

            fn row(self) -> KindRow {
                match self {
                    Self::Metric(metric) => row_of_metric(metric),
                    Self::Serving(figure) => row_of_serving(figure),
                    $(Self::$kind => KindRow {
                        name: $name,
                        patterns: $patterns,
                        growth: $growth,
                        is_maximum: $is_maximum,
                        unaccepted: $unaccepted,
                        counter: $counter,
                        needs: $needs,
                        description: $description,
                    },)*
                }
            }
        }
    };
}

const MAXIMUM: bool = true;
const NO_MAXIMUM: bool = false;
const ACCEPTED: Option<&str> = None;
const NOT_LIMITED: Option<&str> = Some("no limit on growth names it");
const ALLOCATED: Option<Measure> = Some(Measure::Allocated);
const RESERVED: Option<Measure> = Some(Measure::Reserved);

// Each row: name, patterns, growth, absolute limits, acceptance, counter, part of the recording, and what it counts.
kinds! {
    Stacks: "stack", Allowed(Stack), Device, MAXIMUM, ACCEPTED, ALLOCATED, History,
        "bytes that one call stack holds";
    StackHighest: "stack-highest", Allowed(Stack), Device, NO_MAXIMUM, ACCEPTED, ALLOCATED, History,
        "the most bytes that one call stack held at any moment";
    Phases: "phase", Allowed(Phase), Device, NO_MAXIMUM, ACCEPTED, ALLOCATED, History,
        "highest allocated bytes within a phase";
    ReservedInPhases: "phase-reserved", Required(Phase), Device, NO_MAXIMUM, ACCEPTED, RESERVED, History,
        "highest reserved bytes within a phase";
    Modules: "module", Required(Module), Device, MAXIMUM, ACCEPTED, ALLOCATED, History,
        "bytes that one module holds with all its parts";
    Pools: "pool", Required(Pool), Device, MAXIMUM, ACCEPTED, RESERVED, Dump,
        "bytes that the private pools of one name reserve at the end of the recording";
    Outside: "outside", Missing, Device, NO_MAXIMUM,
        Some("memory outside of PyTorch's allocator is not accepted; set its limit instead"), None, Dump,
        "bytes in use on the device outside of PyTorch's allocator at the dump";
    Imbalance: "imbalance", Missing, Ranks, MAXIMUM,
        Some("imbalance is not a figure of one rank; accept the growth on its ranks"), ALLOCATED, History,
        "the difference between the highest peak of all ranks and their median";
    Ranks: "ranks", Missing, Unlimited, NO_MAXIMUM, NOT_LIMITED, None, Nothing,
        "ranks that only one side has";
    Leaks: "leak", Missing, Unlimited, NO_MAXIMUM, NOT_LIMITED, None, Nothing,
        "bytes that do not come back";
    OutOfMemory: "oom", Missing, Unlimited, NO_MAXIMUM, NOT_LIMITED, None, Nothing,
        "memory that ran out";
    Headroom: "headroom", Missing, Unlimited, NO_MAXIMUM, NOT_LIMITED, RESERVED, History,
        "bytes of the device that the reserved peak leaves free";
    #[default]
    Growth: "growth", Missing, Unlimited, NO_MAXIMUM, NOT_LIMITED, None, Nothing,
        "growth that has no before to be compared with";
    Trust: "trust", Missing, Unlimited, NO_MAXIMUM, NOT_LIMITED, None, Nothing,
        "a result that warnings make untrustworthy";
}

fn row_of_metric(metric: Metric) -> KindRow {
    KindRow {
        name: metric.name(),
        patterns: Missing,
        growth: Device,
        is_maximum: MAXIMUM,
        unaccepted: ACCEPTED,
        counter: Some(metric.measure()),
        needs: match metric.point() {
            Point::Start => Start,
            Point::End => Dump,
            Point::Peak | Point::UnusedAtPeak => History,
        },
        description: metric.description(),
    }
}

fn row_of_serving(figure: Serving) -> KindRow {
    KindRow {
        name: figure.name(),
        patterns: Missing,
        growth: Sides,
        is_maximum: NO_MAXIMUM,
        unaccepted: Some("what a server states is not accepted; set its limit instead"),
        counter: None,
        needs: Nothing,
        description: figure.description(),
    }
}

impl LimitKind {
    /// All kinds on whose growth there are limits.
    pub(super) fn limited() -> impl Iterator<Item = Self> {
        let figures = Metric::ALL.map(Self::Metric).into_iter().chain(Serving::ALL.map(Self::Serving));
        figures.chain(Self::OTHERS.iter().copied()).filter(|kind| kind.row().growth != Unlimited)
    }

    /// The names of the kinds that limits accept, in the words of a message: `peak, baseline, … and imbalance`.
    pub(super) fn accepted(is_accepted: fn(Self) -> bool) -> String {
        let is_other = |kind: &Self| kind.patterns() == Missing && !matches!(kind, Self::Metric(_));
        let (mut others, first): (Vec<_>, Vec<_>) =
            Self::limited().filter(|&kind| is_accepted(kind)).partition(is_other);
        others.sort_by_key(|kind| kind.row().growth);
        let mut names: Vec<_> = first.into_iter().flat_map(Self::spellings).collect();
        names.push("host:METRIC".to_owned());
        names.extend(others.into_iter().flat_map(Self::spellings));
        let last = names.pop().unwrap_or_default();
        format!("{} and {last}", names.join(", "))
    }

    /// The ways to write it: all of its kind, and some.
    fn spellings(self) -> Vec<String> {
        let name = self.name();
        match self.patterns() {
            Missing => vec![name.to_owned()],
            Allowed(_) => vec![name.to_owned(), format!("{name}:GLOB")],
            Required(_) => vec![format!("{name}:GLOB")],
        }
    }

    /// Its name in messages and in machine-readable output.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// One line that says what it counts.
    pub fn description(self) -> &'static str {
        self.row().description
    }

    /// Whether limits name what they are about.
    pub(super) fn patterns(self) -> Patterns {
        self.row().patterns
    }

    /// What patterns name, where limits have them.
    pub(super) fn thing(self) -> Option<NamedThing> {
        match self.patterns() {
            Missing => None,
            Allowed(thing) | Required(thing) => Some(thing),
        }
    }

    /// The kind of thing that its checks name: stacks, unless patterns name another one.
    pub(super) fn noun(self) -> &'static str {
        self.thing().unwrap_or(Stack).noun()
    }

    /// The way in which `[[accept]]` names its growth.
    pub fn accepted_by(self) -> AcceptedBy {
        match self.row().unaccepted {
            Some(why) => AcceptedBy::Nothing(why),
            None => self.thing().map_or(AcceptedBy::Metric, AcceptedBy::Name),
        }
    }

    /// Whether less of it is worse.
    pub(super) fn is_capacity(self) -> bool {
        matches!(self, Self::Serving(figure) if figure.is_capacity())
    }

    /// The counter that its figures are of.
    pub(super) fn counter(self) -> Option<Measure> {
        self.row().counter
    }

    /// The part of a recording from which its figures are computed.
    pub(super) fn needs(self) -> NeededPart {
        self.row().needs
    }

    /// Whether a limit without a pattern may be about all of its kind.
    pub(super) fn is_for_all(self) -> bool {
        !matches!(self.patterns(), Required(_))
    }

    /// Whether pinned host memory has it, too.
    pub(super) fn is_of_host_too(self) -> bool {
        self.is_for_all() && self.is_of_devices() && self != Self::Outside
    }

    /// Whether limits on its growth are applied to each device.
    pub(super) fn is_of_devices(self) -> bool {
        self.row().growth == Device
    }

    /// Whether its figures are taken at a peak, which is the limit of the device where memory ran out. Phases have peaks of their own.
    pub(super) fn is_at_peak(self) -> bool {
        self.needs() == History && !self.is_of_phases()
    }

    /// Whether a whole run needs at least what a part from its beginning shows: no figure at the end, and none that a higher peak
    /// elsewhere replaces.
    pub(super) fn is_least_in_part(self) -> bool {
        self.needs() != Dump && self != Self::Metric(Metric::Fragmentation)
    }

    /// Whether it is a difference between figures of all ranks: a bound of one of these does not bound it.
    pub(super) fn is_of_ranks(self) -> bool {
        self.row().growth == Ranks
    }

    /// Whether there are absolute limits on it.
    pub(super) fn is_maximum(self) -> bool {
        self.row().is_maximum
    }

    /// Whether it is about phases.
    pub fn is_of_phases(self) -> bool {
        self.thing() == Some(Phase)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_has_its_own_name() {
        let names: Vec<_> =
            LimitKind::limited().chain(LimitKind::OTHERS.iter().copied()).map(LimitKind::name).collect();
        let limited = LimitKind::OTHERS.iter().filter(|kind| kind.row().growth != Unlimited).count();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len() - limited);
    }

    #[test]
    fn messages_list_what_limits_accept() {
        assert_eq!(
            LimitKind::accepted(LimitKind::is_maximum),
            "peak, baseline, end, active, requested, reserved, reserved-end, fragmentation, stack, stack:GLOB, module:GLOB, \
             pool:GLOB, host:METRIC and imbalance"
        );
    }
}

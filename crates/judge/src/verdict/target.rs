//! Limits as the user writes them.

use std::fmt;
use std::str::FromStr;

use ptmem_base::device::DeviceId;
use ptmem_base::pattern::{ParsePatternError, Pattern};
use ptmem_base::text::did_you_mean;
use ptmem_base::units::{Limit, parse_size};
use ptmem_compare::diff::{DeviceDiff, Diff};
use ptmem_trace::profile::{Metric, Serving};

use super::LimitKind;
use super::kind::Patterns;

/// Consequence of exceeding a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Level {
    /// A regression.
    #[default]
    Fail,
    /// A remark.
    Warn,
}

ptmem_base::named!(Level);

/// Subject of a limit, of a check, or of growth that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Target {
    /// Whether it is about pinned host memory in place of devices.
    pub of_host: bool,
    /// Its kind.
    pub kind: LimitKind,
    /// Those of its kind whose names match; `None` where it is about all of them, or about what has no name.
    pub pattern: Option<Pattern>,
}

impl Target {
    /// Whether it is about phases of this name.
    pub fn is_about_phase(&self, name: &str) -> bool {
        self.kind.is_of_phases() && self.selects(name)
    }

    /// Whether it is about this device or about the host; without one, a device that neither side has.
    pub(super) fn concerns(&self, device: Option<DeviceId>) -> bool {
        self.of_host == (device == Some(DeviceId::Host))
    }

    /// The devices of a comparison that it is about.
    pub(super) fn devices_of<'d>(&self, diff: &'d Diff) -> impl Iterator<Item = &'d DeviceDiff> + Clone {
        diff.devices.iter().filter(|device| self.concerns(device.id()))
    }

    /// Whether it is about what has this name, among things of its kind. The function alone names a private pool, too.
    pub(super) fn selects(&self, name: &str) -> bool {
        let function = name.split_once(" (").map(|(function, _)| function).filter(|_| self.kind == LimitKind::Pools);
        let mut names = std::iter::once(name).chain(function);
        self.pattern.as_ref().is_none_or(|pattern| names.any(|name| pattern.matches(name)))
    }

    /// As it is written.
    pub fn name(&self) -> String {
        let host = if self.of_host { OF_HOST } else { "" };
        let name = self.kind.name();
        match &self.pattern {
            Some(pattern) => format!("{host}{name}:{}", pattern.as_str()),
            None => format!("{host}{name}"),
        }
    }
}

impl From<LimitKind> for Target {
    fn from(kind: LimitKind) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// A limit on growth: `[METRIC=]LIMIT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrowthLimit {
    /// Subject of the limit.
    pub target: Target,
    /// The growth that is allowed.
    pub limit: Limit,
    /// Consequence of exceeding it.
    pub level: Level,
}

impl GrowthLimit {
    /// Whether both are limits on the same figure, so that one takes the place of the other.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        self.target == other.target && self.level == other.level
    }
}

/// An absolute limit: `METRIC=SIZE`, or `SIZE` for the peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maximum {
    /// Subject of the limit: no phase, and not the most that stacks held.
    pub target: Target,
    /// Bytes.
    pub limit: u64,
}

/// The reason why a threshold cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseThresholdError(String);

impl From<ParsePatternError> for ParseThresholdError {
    fn from(error: ParsePatternError) -> Self {
        Self(error.to_string())
    }
}

/// The beginning of a limit on pinned host memory.
const OF_HOST: &str = "host:";

/// Whether a limit may be about a kind.
type IsAccepted = fn(LimitKind) -> bool;

/// Limits on growth, and agreements to it, may be about all kinds that limits name.
const IN_GROWTH: IsAccepted = |_| true;

fn unknown_metric(name: &str, accepted: IsAccepted) -> ParseThresholdError {
    let near = did_you_mean(name, LimitKind::limited().map(LimitKind::name));
    ParseThresholdError(format!("unknown metric '{name}'; accepted are {}{near}", LimitKind::accepted(accepted)))
}

impl Target {
    /// Reads a target; the error lists those that are accepted.
    fn parse(text: &str, accepted: IsAccepted) -> Result<Self, ParseThresholdError> {
        let rest = text.strip_prefix(OF_HOST);
        let of_host = rest.is_some();
        let rest = rest.unwrap_or(text);
        let has_patterns =
            |name: &str| LimitKind::limited().any(|kind| kind.name() == name && kind.patterns() != Patterns::Missing);
        let (name, pattern) = match rest.split_once(':').filter(|(name, _)| has_patterns(name)) {
            Some((name, glob)) => (name, Some(Pattern::glob(glob)?)),
            None => (rest, None),
        };
        let mut kinds = LimitKind::limited().filter(|kind| pattern.is_some() || kind.is_for_all());
        let found = kinds.find(|kind| kind.name() == name).filter(|kind| !of_host || kind.is_of_host_too());
        let target = found.map(|kind| Self { of_host, kind, pattern });
        target.ok_or_else(|| unknown_metric(text, accepted))
    }
}

/// Refuses a target without a limit, or with a limit that no '=' separates from it.
fn require_limit(
    text: &str,
    accepted: IsAccepted,
    example: &str,
    is_limit: fn(&str) -> bool,
) -> Result<(), ParseThresholdError> {
    if let Some((target, limit)) = text.rsplit_once(':')
        && is_limit(limit)
        && Target::parse(target, accepted).is_ok()
    {
        return Err(ParseThresholdError(format!("'{text}' has no '='; write {target}={limit}")));
    }
    match Target::parse(text, accepted) {
        Ok(_) => {
            Err(ParseThresholdError(format!("'{text}' has no limit; write one behind it, such as {text}={example}")))
        }
        Err(_) => Ok(()),
    }
}

impl FromStr for Target {
    type Err = ParseThresholdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text, IN_GROWTH)
    }
}

impl GrowthLimit {
    /// The names of what it may limit.
    pub fn accepted() -> String {
        LimitKind::accepted(IN_GROWTH)
    }

    /// Reads `[METRIC=]LIMIT`.
    ///
    /// # Errors
    /// The error names the mistake and the accepted values.
    pub fn parse(text: &str, level: Level) -> Result<Self, ParseThresholdError> {
        // The limit has no '=', a pattern may.
        match text.rsplit_once('=') {
            Some((target, limit)) => Self::new(target.trim().parse()?, limit, level),
            None => {
                require_limit(text, IN_GROWTH, "5%", |limit| Limit::parse(limit).is_ok())?;
                Self::new(LimitKind::Metric(Metric::Peak).into(), text, level)
            }
        }
    }

    fn new(target: Target, limit: &str, level: Level) -> Result<Self, ParseThresholdError> {
        let limit = Limit::parse(limit).map_err(|error| {
            let expected = "a growth limit is a percentage, a size, or both: 5%, 200MiB, 5%+128MiB or 0, with ± or +- in front to \
                            limit shrinkage as well";
            ParseThresholdError(format!("{error}; {expected}"))
        })?;
        if target.kind == LimitKind::Serving(Serving::KvCacheTokens) && limit.allowed(0) > 0 {
            let name = target.name();
            return Err(ParseThresholdError(format!(
                "{name} counts tokens, not bytes; expected a percentage, such as {name}=5%"
            )));
        }
        Ok(Self { target, limit, level })
    }
}

impl Maximum {
    /// The names of what it may limit.
    pub fn accepted() -> String {
        LimitKind::accepted(LimitKind::is_maximum)
    }
}

impl FromStr for Maximum {
    type Err = ParseThresholdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // The size has no '=', a pattern may.
        let (name, size) = match text.rsplit_once('=') {
            Some(parts) => parts,
            None => {
                require_limit(text, LimitKind::is_maximum, "70GiB", |limit| parse_size(limit).is_ok())?;
                (Metric::Peak.name(), text)
            }
        };
        let target = Target::parse(name.trim(), LimitKind::is_maximum)?;
        if !target.kind.is_maximum() {
            let accepted = LimitKind::accepted(LimitKind::is_maximum);
            let message = format!("'{}' has no absolute limit; accepted are {accepted}", name.trim());
            return Err(ParseThresholdError(message));
        }
        Ok(Self { target, limit: parse_size(size).map_err(|error| ParseThresholdError(error.to_string()))? })
    }
}

impl fmt::Display for GrowthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.target.name(), self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(text: &str) -> Result<GrowthLimit, ParseThresholdError> {
        GrowthLimit::parse(text, Level::Fail)
    }

    #[test]
    fn thresholds_are_read() {
        assert_eq!(growth("5%").unwrap().to_string(), "peak=5 %");
        assert_eq!(growth("reserved=200MiB").unwrap().to_string(), "reserved=200.00 MiB");
        assert_eq!(growth("stack=5%+1MiB").unwrap().to_string(), "stack=5 % + 1.00 MiB");
        let glob = growth("stack:*attention*=0").unwrap();
        assert_eq!(glob.target.kind, LimitKind::Stacks);
        assert!(glob.target.selects("self_attention (nn/model.py:7)") && !glob.target.selects("mlp (a.py:1)"));
        // Names of phases may hold what else divides a limit.
        let phase = growth("phase:step=1:*=5%").unwrap();
        assert_eq!(phase.to_string(), "phase:step=1:*=5 %");
        assert!(phase.target.is_about_phase("step=1:forward") && !phase.target.is_about_phase("step=2:forward"));
        for text in
            ["phases=5%", "phase:=5%", "5 percent", "-3%", "5GB%", "speed=5%", "=5%", "stack:=5%", "peak=", "peak"]
        {
            assert!(growth(text).is_err(), "{text}");
        }
        assert_eq!(growth("phase=5%").unwrap().to_string(), "phase=5 %");
        assert_eq!(growth("+-5%").unwrap().to_string(), "peak=±5 %");
        assert_eq!(growth("kv-cache-tokens=0").unwrap().to_string(), "kv-cache-tokens=0 B");
        assert_eq!(growth("kv-cache-memory=1MiB").unwrap().to_string(), "kv-cache-memory=1.00 MiB");
        assert_eq!(growth("stack:a=b*=±1MiB").unwrap().to_string(), "stack:a=b*=±1.00 MiB");
        assert!("peak=±5MiB".parse::<Maximum>().is_err());
        for (text, expected) in [
            ("peak:5%", "'peak:5%' has no '='; write peak=5%"),
            ("stack:*a*:5%+1MiB", "'stack:*a*:5%+1MiB' has no '='; write stack:*a*=5%+1MiB"),
            ("stack:*a*", "'stack:*a*' has no limit; write one behind it, such as stack:*a*=5%"),
            (
                "kv-cache-tokens=5%+100MiB",
                "kv-cache-tokens counts tokens, not bytes; expected a percentage, such as kv-cache-tokens=5%",
            ),
        ] {
            assert_eq!(growth(text).unwrap_err().to_string(), expected);
        }
        let maximum = |text: &str| text.parse::<Maximum>().unwrap_err().to_string();
        assert_eq!(maximum("reserved:5GiB"), "'reserved:5GiB' has no '='; write reserved=5GiB");
        assert_eq!(maximum("peak"), "'peak' has no limit; write one behind it, such as peak=70GiB");
        assert_eq!(maximum("peak=5%"), "'5%' is a percentage; expected a size such as 200MiB");
        let message = growth("peek=5%").unwrap_err().to_string();
        assert!(message.contains("did you mean 'peak'?") && message.contains("reserved"), "{message}");
        assert_eq!(
            "peak=70GiB".parse(),
            Ok(Maximum { target: LimitKind::Metric(Metric::Peak).into(), limit: 70 << 30 })
        );
        assert_eq!("imbalance=1GiB".parse(), Ok(Maximum { target: LimitKind::Imbalance.into(), limit: 1 << 30 }));
        assert_eq!(growth("imbalance=1GiB").unwrap().target, LimitKind::Imbalance.into());
        assert!(growth("imbalence=1GiB").unwrap_err().to_string().contains("did you mean 'imbalance'?"));
        assert_eq!(
            "fragmentation=1GiB".parse::<Maximum>().unwrap().target,
            LimitKind::Metric(Metric::Fragmentation).into()
        );
        assert_eq!("stack=5MiB".parse::<Maximum>().unwrap().target, LimitKind::Stacks.into());
        assert_eq!("stack:a=b*=5MiB".parse::<Maximum>().unwrap().target.name(), "stack:a=b*");
        assert_eq!("70GiB".parse::<Maximum>(), "peak=70GiB".parse());
        let host = growth("host:peak=5%").unwrap();
        assert_eq!(host.to_string(), "host:peak=5 %");
        assert!(host.target.concerns(Some(DeviceId::Host)) && !host.target.concerns(Some(DeviceId::FIRST)));
        assert!(!growth("peak=5%").unwrap().target.concerns(Some(DeviceId::Host)));
        assert_eq!(growth("host:stack:*load*=0").unwrap().target.name(), "host:stack:*load*");
        assert_eq!("host:reserved=5MiB".parse::<Maximum>().unwrap().target.name(), "host:reserved");
        assert_eq!(growth("pool:capture*=0").unwrap().target.kind, LimitKind::Pools);
        assert_eq!("pool:*=5MiB".parse::<Maximum>().unwrap().target.name(), "pool:*");
        for text in [
            "pool=5%",
            "pool:=5%",
            "host:pool:x=5%",
            "host=5%",
            "host:module:x=5%",
            "host:imbalance=5%",
            "host:host:peak=5%",
        ] {
            assert!(growth(text).is_err(), "{text}");
        }
        for text in ["peak", "5%", "peak=5%", "phase:x=5MiB", "stack:=1MiB", "peak="] {
            assert!(text.parse::<Maximum>().is_err(), "{text}");
        }
    }
}

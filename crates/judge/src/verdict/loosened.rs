//! Limits that a change of the configuration loosens.

use ptmem_base::units::Size;

use super::{Growth, Level, Limits, Maximum};

impl Limits {
    /// What these limits let pass that those of the base would not, in words; empty where they are as tight.
    #[must_use]
    pub fn loosened_since(&self, base: &Self) -> Vec<String> {
        let growth = base.growth.iter().filter(|limit| limit.level == Level::Fail);
        let mut found: Vec<String> = growth.filter_map(|limit| loosened_growth(self, limit)).collect();
        found.extend(base.maximum.iter().filter_map(|limit| loosened_maximum(self, limit)));
        if self.min_delta.unwrap_or(0) > base.min_delta.unwrap_or(super::DEFAULT_MIN_DELTA) {
            found.push("min-delta is larger".to_owned());
        }
        if self.min_headroom.unwrap_or(0) < base.min_headroom.unwrap_or(0) {
            found.push("min-headroom is smaller".to_owned());
        }
        if self.device_overhead.unwrap_or(u64::MAX) < base.device_overhead.unwrap_or(0) {
            found.push("device-overhead is smaller".to_owned());
        }
        for (name, own, old) in [
            ("strict is off", base.strict, self.strict),
            ("allow-oom is on", self.allow_oom, base.allow_oom),
            ("allow-partial is on", self.allow_partial, base.allow_partial),
        ] {
            if own == Some(true) && old != Some(true) {
                found.push(name.to_owned());
            }
        }
        found
    }
}

fn loosened_growth(limits: &Limits, base: &Growth) -> Option<String> {
    let name = base.target.name();
    let same = limits.growth.iter().find(|limit| limit.level == Level::Fail && limit.target == base.target);
    match same {
        None => Some(format!("the limit on the growth of {name} is gone ({})", base.limit)),
        Some(limit) => limit
            .limit
            .allows_more_than(&base.limit)
            .then(|| format!("the growth of {name} may be {}, before {}", limit.limit, base.limit)),
    }
}

fn loosened_maximum(limits: &Limits, base: &Maximum) -> Option<String> {
    let name = base.target.name();
    match limits.maximum.iter().find(|limit| limit.target == base.target) {
        None => Some(format!("the limit on {name} is gone ({})", Size(base.limit))),
        Some(limit) if limit.limit > base.limit => {
            Some(format!("{name} may be {}, before {}", Size(limit.limit), Size(base.limit)))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    fn loosened(base: &str, own: &str) -> Vec<String> {
        Config::parse(own).unwrap().limits.loosened_since(&Config::parse(base).unwrap().limits)
    }

    #[test]
    fn what_lets_more_pass_is_told_and_nothing_else() {
        let base = "strict = true\n[max-growth]\npeak = \"5%\"\nend = \"5%\"\n[max]\nreserved = \"70GiB\"\n";
        assert_eq!(loosened(base, base), [""; 0]);
        let tighter =
            "strict = true\n[max-growth]\npeak = \"4%\"\nend = \"0\"\nstack = \"0\"\n[max]\nreserved = \"60GiB\"\n";
        assert_eq!(loosened(base, tighter), [""; 0]);
        let own = "allow-oom = true\n[max-growth]\npeak = \"4%+1GiB\"\n[max]\nreserved = \"80GiB\"\n";
        let expected = [
            "the limit on the growth of end is gone (5 %)",
            "the growth of peak may be 4 % + 1.00 GiB, before 5 %",
            "reserved may be 80.00 GiB, before 70.00 GiB",
            "strict is off",
            "allow-oom is on",
        ];
        assert_eq!(loosened(base, own), expected);
        assert_eq!(loosened("[max-growth]\npeak = \"5%\"", "[warn-growth]\npeak = \"5%\"").len(), 1);
    }
}

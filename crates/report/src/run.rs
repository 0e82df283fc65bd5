//! The surroundings of a report: the run of a job that makes it, and how its reader can go on.

use std::fmt;

use ptmem_judge::verdict::Day;

/// The run of continuous integration that a report is made in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiRun {
    /// The commit that is judged.
    pub commit: String,
    /// Address of the repository, without a slash at the end.
    pub repository: String,
    /// Address of the run with its log.
    pub log: String,
}

impl CiRun {
    /// The beginning of the commit, by which people call it.
    pub fn short_commit(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }

    /// Address of the commit.
    pub(super) fn commit_address(&self) -> String {
        format!("{}/commit/{}", self.repository, self.commit)
    }

    /// Address of a line of a file as it is in the commit.
    pub(super) fn line_address(&self, path: &str, line: u32) -> String {
        format!("{}/blob/{}/{}#L{line}", self.repository, self.commit, escaped_path(path))
    }
}

/// A path in an address: all but the plainest bytes are escaped, so that it ends no link.
pub(super) fn escaped_path(path: &str) -> String {
    path.bytes().map(|b| if is_plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Whether a byte of a path means itself in every address.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)
}

/// The approval of growth by a label of the pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The label.
    pub label: String,
    /// The account that set it; `None` if another event started the run.
    pub by: Option<String>,
    /// Whether the step passes: it does unless another gate fails without approval.
    pub passes: bool,
}

impl fmt::Display for Approval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The change is approved by the label {} on the pull request", self.label)?;
        match &self.by {
            Some(by) => write!(f, ", which @{by} set")?,
            None => f.write_str(", which was set before this run")?,
        }
        f.write_str(if self.passes { ": the step passes" } else { "; other gates do not pass" })
    }
}

/// The ways in which the reader of a failing report can accept the growth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acceptance {
    /// Commands that record the growth in stored befores.
    pub commands: Vec<String>,
    /// The last day of an entry of `ptmem.toml`.
    pub expires: Day,
    /// The label of a pull request that approves growth, where one does.
    pub label: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_lines_of_the_commit() {
        let run = CiRun { commit: "abc1234def".to_owned(), repository: "https://h/o/r".to_owned(), log: String::new() };
        assert_eq!(run.short_commit(), "abc1234");
        assert_eq!(run.line_address("a b/(c).py", 3), "https://h/o/r/blob/abc1234def/a%20b/%28c%29.py#L3");
        assert_eq!(run.commit_address(), "https://h/o/r/commit/abc1234def");
        assert_eq!(escaped_path("C:/a%d|é.py"), "C%3A/a%25d%7C%C3%A9.py");
    }
}

//! Causes in words. Each sentence says what was measured, and calls an inference one.

use std::cmp::Reverse;

use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_base::units::Size;

use super::share::{Cause, EditEvidence, EditShare};
use crate::patch::{Edit, EditKind};

/// What [`EditEvidence::Kept`] says of blocks.
const KEPT: &str = "is in blocks that the before frees sooner, mostly next to allocations";

/// Edits that are named in a sentence.
const MOST_NAMED: usize = 4;

impl Edit {
    /// Its place: the file and the line.
    pub fn place(&self) -> String {
        let line = self.shown().map(|(_, path, line, _)| format!("{path}:{line}"));
        line.or_else(|| self.whole_file().map(str::to_owned)).unwrap_or_default()
    }

    /// It in words, to follow "this change".
    pub fn words(&self) -> String {
        if let EditKind::Dependency(name, versions) = &self.kind {
            let place = self.shown().map(|_| format!(" ({})", self.place())).unwrap_or_default();
            return format!("{name} {} → {}{place}", versions.before, versions.after);
        }
        let Some((_, _, _, text)) = self.shown() else {
            let verb = match self.path {
                Sides { before: None, .. } => "added",
                Sides { after: None, .. } => "removed",
                Sides { before: Some(_), after: Some(_) } => "changed",
            };
            return format!("{} ({verb})", self.place());
        };
        let verb = match (&self.line.before, &self.line.after) {
            (Some(_), None) => "removed",
            (None, _) => "added",
            _ => "now",
        };
        format!("{} ({verb} `{}`)", self.place(), text.replace('`', "'"))
    }
}

impl Cause {
    /// The edit that explains the growth, in a few sentences; `None` where nothing grew.
    pub fn lead(&self) -> Option<String> {
        let Some(lead) = self.leading() else { return self.without_lead() };
        let edit = &self.edits[lead.edit];
        let mut text = match lead.share {
            Some(share) => self.through(share),
            None => format!("No stack of the growth {}{} leads to an edit", self.place, self.gross()),
        };
        if lead.is_inferred {
            text += &self.without_python();
            text += &match lead.share {
                Some(_) => ". The change has no other edit that can matter (inferred)".to_owned(),
                None => format!(". The only edit of the change that can matter is {} (inferred)", edit.words()),
            };
        }
        if let Some(share) = lead.share {
            let (label, growth) = &share.row;
            text += &format!(". Largest: {label} ({growth}");
            if self.is_by_graph(share) {
                text += "; inferred: a graph is now recorded here";
            }
            text += ")";
        }
        text += ".";
        let rest = self.rest(lead.edit).map(|share| self.named(share));
        let others = self.others_than(lead.edit).map(Edit::words);
        let listed = list(rest.chain(others));
        if !listed.is_empty() {
            text += &format!(" The change has other edits that can matter: {listed}.");
        }
        Some(text + &self.without_unread())
    }

    fn without_lead(&self) -> Option<String> {
        if !self.is_code_known {
            return None;
        }
        let some = self.shares.iter().map(|share| self.named(share));
        let listed = list(some.chain(self.others().map(Edit::words)));
        if listed.is_empty() {
            return None;
        }
        let why = match self.grown {
            0 => format!("No stack grew {}", self.place),
            _ => {
                format!("Stacks lead from less than half of the growth {}{} to one edit", self.place, self.gross())
            }
        };
        Some(format!("{why}{}. Edits that can matter: {listed}.{}", self.without_python(), self.without_unread()))
    }

    /// An edit after its part of the growth.
    fn named(&self, share: &EditShare) -> String {
        format!("{}: {}", self.percent(share.bytes), self.edits[share.edit].words())
    }

    /// A sentence about the files that were not read.
    fn without_unread(&self) -> String {
        match self.unread {
            0 => String::new(),
            unread => {
                format!(" {} not read: the change is large.", count(unread, "changed file was", "changed files were"))
            }
        }
    }

    /// What no stack can lead from, as the rest of a sentence.
    fn without_python(&self) -> String {
        match self.without_python {
            0 => String::new(),
            bytes if bytes == self.grown => "; none of it has a Python stack".to_owned(),
            bytes => format!("; {} of {} have no Python stack", Size(bytes), Size(self.grown)),
        }
    }

    /// How its bytes lead to an edit: those that pass through an edited line pass through its function, too.
    fn through(&self, share: &EditShare) -> String {
        let edit = &self.edits[share.edit];
        let mut ways = share.ways.clone();
        if ways.contains_key(&EditEvidence::Scope) {
            let line = ways.remove(&EditEvidence::Line).unwrap_or(0);
            *ways.entry(EditEvidence::Scope).or_default() += line;
        }
        let mut ways: Vec<(EditEvidence, u64)> = ways.into_iter().collect();
        ways.sort_by_key(|&(_, bytes)| Reverse(bytes));
        let several = ways.len() > 1;
        let phrases = ways.iter().enumerate().map(|(at, &(how, bytes))| {
            let part = match at {
                0 => self.part(bytes),
                _ => self.percent(bytes),
            };
            let is_known = several && at > 0;
            let words = how.words(edit, share, is_known);
            let others =
                if how == EditEvidence::Scope && !is_known { self.others_of_scope(edit) } else { String::new() };
            format!("{part} {words}{others}")
        });
        phrases.collect::<Vec<_>>().join("; ")
    }

    /// The number of other edits of the same function or class, as the rest of a sentence: its stacks lead to all of them.
    fn others_of_scope(&self, edit: &Edit) -> String {
        let is_of_scope = |other: &&Edit| other.can_matter() && other.body_now() == edit.body_now();
        let of_scope = self.edits.iter().filter(|other| edit.body.after.is_some() && is_of_scope(other)).count();
        match of_scope.saturating_sub(1) {
            0 => String::new(),
            others => format!(", and makes {} there", count(others as u64, "other edit", "other edits")),
        }
    }

    /// A part of the growth in words.
    fn part(&self, bytes: u64) -> String {
        if bytes == self.grown {
            return format!("All of the growth {}{}", self.place, self.gross());
        }
        let gross = self.others_shrank();
        let part = format!("{} of {}{gross}", Size(bytes), Size(self.grown));
        format!("{} of the growth {} ({part})", self.percent(bytes), self.place)
    }

    /// The growth of all rows that grew, in brackets, where the figure grew by less.
    fn gross(&self) -> String {
        match self.others_shrank() {
            shrank if shrank.is_empty() => shrank,
            shrank => format!(" ({}{shrank})", Size(self.grown)),
        }
    }

    /// Why the figure grew by less than the rows that grew, as the rest of a sentence.
    fn others_shrank(&self) -> String {
        let is_seen =
            |less: u64| less > 0 && Size(self.grown).to_string() != Size(self.grown.saturating_sub(less)).to_string();
        let mut text = String::new();
        if is_seen(self.shrunk) {
            text += &format!("; other stacks shrank by {}", Size(self.shrunk));
        }
        if is_seen(self.elsewhere) {
            text += &format!("; the before held {} more at its peak", Size(self.elsewhere));
        }
        text
    }

    /// A part of the growth in percent, rounded down.
    pub fn percent(&self, bytes: u64) -> String {
        match u128::from(bytes) * 100 / u128::from(self.grown.max(1)) {
            0 => "below 1 %".to_owned(),
            percent => format!("{percent} %"),
        }
    }
}

impl EditEvidence {
    /// It in words; the edit is not repeated where it was named just before.
    fn words(self, edit: &Edit, share: &EditShare, is_known: bool) -> String {
        let (place, scope) = (edit.place(), edit.scope.as_deref().unwrap_or("the module"));
        let change = edit.change();
        match (self, is_known) {
            (Self::Line, false) if share.is_of_use(edit) => {
                let (lines, others) = (share.lines(edit), share.other_lines());
                format!(
                    "passes through {lines}, which uses a name that this change imports from elsewhere{others}: it \
                     {change} ({place})"
                )
            }
            (Self::Line, false) => {
                format!("passes through {}, where this change {change}{}", share.lines(edit), share.other_lines())
            }
            (Self::Line, true) => format!("passes through {}{}", share.lines(edit), share.other_lines()),
            (Self::Scope, false) => format!("passes through {scope}, where this change {change} ({place})"),
            (Self::Scope, true) => format!("passes through {scope}"),
            (Self::Package, _) => format!("passes through {}", edit.words()),
            (Self::Ratio, true) => "is in blocks whose growth fits its numbers (inferred)".to_owned(),
            (Self::Ratio, false) => {
                format!("is in blocks whose growth fits the numbers at {place}, where this change {change} (inferred)")
            }
            (Self::Kept, _) if edit.is_unread() => {
                format!("{KEPT} of this package: {} (inferred)", edit.words())
            }
            (Self::Kept, false) => format!("{KEPT} of {scope}, where this change {change} ({place}; inferred)"),
            (Self::Kept, true) => format!("{KEPT} of {scope} (inferred)"),
        }
    }
}

impl EditShare {
    /// The lines of the edited statement that most of its bytes pass through.
    fn lines(&self, edit: &Edit) -> String {
        let lines = self.statement().map(|at| &edit.statements.after[at].lines);
        match (&edit.path.after, lines) {
            (Some(path), Some(lines)) if lines.start() < lines.end() => {
                format!("{path}:{}-{}", lines.start(), lines.end())
            }
            (Some(path), Some(lines)) => format!("{path}:{}", lines.start()),
            (None, _) | (_, None) => edit.place(),
        }
    }

    /// True if the statement that most of its bytes pass through only uses a name which its edit imports.
    fn is_of_use(&self, edit: &Edit) -> bool {
        edit.is_import() && self.statement().is_some_and(|at| edit.statements.after[at].line.is_none())
    }

    /// The number of other edited statements that its bytes pass through, as the rest of a sentence.
    fn other_lines(&self) -> String {
        match self.statements.len().saturating_sub(1) {
            0 => String::new(),
            others => format!(", or through {} of this edit", count(others as u64, "other line", "other lines")),
        }
    }
}

impl Edit {
    /// What the change does at its line.
    fn change(&self) -> String {
        let text =
            |side: &Option<(u32, String)>| side.as_ref().map(|(_, text)| format!("`{}`", text.replace('`', "'")));
        match (text(&self.line.before), text(&self.line.after)) {
            (Some(old), None) => format!("removes {old}"),
            (None, Some(new)) => format!("adds {new}"),
            (_, new) => format!("writes {}", new.unwrap_or_default()),
        }
    }
}

/// A list of a few.
fn list(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    let more = all.len().saturating_sub(MOST_NAMED);
    let mut text = all[..all.len() - more].join("; ");
    if more > 0 {
        text += &format!("; and {more} more");
    }
    text
}

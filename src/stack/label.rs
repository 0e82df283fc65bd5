//! Names of stacks for people: the line of the user, the library code that it calls, and the operator.

use std::collections::BTreeMap;

use super::classify::Owner;
use super::{Code, GroupBy, Grouper};
use crate::snapshot::{FrameId, StackId};

/// Whether labels name lines. Lines move from commit to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedLines {
    Yes,
    No,
}

impl Code<'_> {
    /// The name of a stack: `function (path:line)` of the frame to blame, then ` > function (path:line)` of the library code
    /// that it calls, if any, and the operator where one is known; led by `backward` where autograd runs it. Without Python
    /// frames the C++ operation.
    #[must_use]
    pub fn label(&self, stack: StackId) -> String {
        self.label_at(stack, NamedLines::Yes)
    }

    /// The same without lines, which move.
    #[must_use]
    pub fn label_without_line(&self, stack: StackId) -> String {
        self.label_at(stack, NamedLines::No)
    }

    fn label_at(&self, stack: StackId, lines: NamedLines) -> String {
        let operation = self.operation(stack);
        let Some(site) = self.site(stack) else { return operation.label() };
        let backward = if operation.backward { "backward: " } else { "" };
        let text = |frame: FrameId| self.text_at(frame, self.line(frame).filter(|_| lines == NamedLines::Yes));
        let library = self.library_site(stack, site).map(|frame| format!(" > {}", text(frame))).unwrap_or_default();
        // The node says more where the frames are those of the forward pass.
        let forward = !self.tables().forward(stack).is_empty();
        let operator = match (operation.node.filter(|_| forward), operation.operator) {
            (Some(node), _) => format!(" {node}"),
            (None, Some(operator)) => format!(" aten::{operator}"),
            (None, None) => String::new(),
        };
        format!("{backward}{}{library}{operator}", text(site))
    }

    /// The innermost frame of a library below the frame to blame, where that is the user's: with the user's line alone, all
    /// stacks of a model that lives in a library would have one name.
    fn library_site(&self, stack: StackId, site: FrameId) -> Option<FrameId> {
        let is_user = self.owner(site) == Owner::User;
        let mut inside = self.python(stack).take_while(|&frame| frame != site);
        inside.find(|&frame| is_user && self.owner(frame) == Owner::Library)
    }

    /// The frames that call the frame to blame, innermost first, then those inside of it.
    fn around_site(&self, stack: StackId) -> Vec<FrameId> {
        let site = self.site(stack);
        let outside = self.python(stack).skip_while(|&frame| Some(frame) != site).skip(1);
        let callers = outside.filter(|&frame| matches!(self.owner(frame), Owner::User | Owner::Library));
        let inside = self.python(stack).take_while(|&frame| Some(frame) != site);
        callers.chain(inside).collect()
    }
}

/// Tells stacks of one label apart by the first frames in which they differ: their callers, else what they call. What cannot
/// be told apart by frames is numbered. Returns a label for each; groups that do not go by single stacks keep theirs.
#[must_use]
pub fn distinct_labels(label: &str, stacks: &[(&Grouper<'_>, StackId)]) -> Vec<String> {
    let mut labels = vec![label.to_owned(); stacks.len()];
    if stacks.iter().any(|(grouper, _)| !matches!(grouper.by(), GroupBy::Stack | GroupBy::Frames)) {
        return labels;
    }
    let around: Vec<Vec<FrameId>> = stacks.iter().map(|(grouper, stack)| grouper.code().around_site(*stack)).collect();
    let text = |index: usize, depth: usize| {
        let frame = *around[index].get(depth)?;
        Some(stacks[index].0.code().text(frame))
    };
    for depth in 0..around.iter().map(Vec::len).max().unwrap_or(0) {
        for indices in same_labels(&labels) {
            let texts: Vec<Option<String>> = indices.iter().map(|&index| text(index, depth)).collect();
            if texts.iter().all(|text| *text == texts[0]) {
                continue;
            }
            for (index, text) in indices.into_iter().zip(texts) {
                labels[index].extend(text.map(|text| format!(" from {text}")));
            }
        }
    }
    for indices in same_labels(&labels) {
        for (number, index) in indices.into_iter().enumerate().skip(1) {
            labels[index].push_str(&format!(" #{}", number + 1));
        }
    }
    labels
}

/// The indices of equal labels, where there are several of one.
fn same_labels(labels: &[String]) -> Vec<Vec<usize>> {
    let mut by_label: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, label) in labels.iter().enumerate() {
        by_label.entry(label).or_default().push(index);
    }
    by_label.into_values().filter(|indices| indices.len() > 1).collect()
}

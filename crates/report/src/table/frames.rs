//! Chains of frames in the room that a row leaves.

use anstyle::Style;
use ptmem_base::text::{printable, shorten};
use ptmem_compare::tree::CallFrame;
use unicode_width::UnicodeWidthStr;

use crate::view::TreeFrame;

/// Forms of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// With the path of its file.
    Full,
    /// With the name of its file.
    Short,
}

/// The frames of a row in at most `room` columns, the last one in full where that is possible.
pub(super) fn fit(frames: &[TreeFrame], room: usize, style: Style) -> String {
    let Some((last, callers)) = frames.split_last() else { return String::new() };
    let mut forms: Vec<Option<Form>> = vec![None; callers.len()];
    forms.push(Some(Form::Full));
    if !fits(frames, &forms, room) {
        forms[callers.len()] = Some(Form::Short);
    }
    if !fits(frames, &forms, room) {
        return shorten(&plain(last, Form::Short), room);
    }
    // The frames that people look for first: the one that is called, the line of theirs that calls it, and where that
    // begins.
    let users = callers.iter().rposition(|caller| caller.frame.is_user);
    let order = users.into_iter().chain((!callers.is_empty()).then_some(0)).chain((0..callers.len()).rev());
    for at in order {
        // A frame is worth more than the folder of its file.
        for form in [Form::Full, Form::Short] {
            if forms[at].is_none() {
                forms[at] = Some(form);
                if !fits(frames, &forms, room) {
                    forms[at] = None;
                }
            }
        }
    }
    chain(frames, &forms, |frame, form| emphasized(frame, form, style))
}

fn fits(frames: &[TreeFrame], forms: &[Option<Form>], room: usize) -> bool {
    chain(frames, forms, plain).width() <= room
}

/// Frames as far as they have a form; the others are one ellipsis.
fn chain(frames: &[TreeFrame], forms: &[Option<Form>], write: impl Fn(&TreeFrame, Form) -> String) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut is_gap = false;
    for (frame, form) in frames.iter().zip(forms) {
        match form {
            Some(form) => parts.push(write(frame, *form)),
            None if !is_gap => parts.push("…".to_owned()),
            None => {}
        }
        is_gap = form.is_none();
    }
    parts.join(" > ")
}

/// A frame, with a star if it matches the search.
fn plain(frame: &TreeFrame, form: Form) -> String {
    let TreeFrame { frame, marked } = frame;
    let text = match (form, &frame.path) {
        (Form::Short, Some(path)) => {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            CallFrame { path: Some(name), ..frame.clone() }.text()
        }
        _ => frame.text(),
    };
    format!("{}{}", if *marked { "*" } else { "" }, printable(&text))
}

/// The same in bold letters on a terminal.
fn emphasized(frame: &TreeFrame, form: Form, style: Style) -> String {
    let text = plain(frame, form);
    if frame.marked { format!("{style:#}{}{text}{:#}{style}", style.bold().underline(), style) } else { text }
}

//! Who holds the memory, as boxes within boxes: the frame of the picture. The script draws the boxes.

use maud::{Markup, html};
use ptmem_trace::profile;

use crate::name::name;
use crate::picture::Picture;
use crate::view::Section;

/// The figure of a section's memory by call stack.
pub(super) fn figure(section: &Section, picture: &Picture, id: &str) -> Markup {
    let Some(moment) = picture.flame.moments.first() else { return html! {} };
    html! {
        figure.flame aria-labelledby=(format!("{id}-flame")) {
            figcaption id=(format!("{id}-flame")) { "Who holds the memory at the " (title(&moment.which)) }
            div.controls {}
            svg.boxes xmlns="http://www.w3.org/2000/svg" width="100%" height="0" role="tree"
                aria-label=(format!("Memory of {} by call stack", name(&section.name))) {}
            p.readout aria-live="polite" { noscript { "The flame graph needs the script of this page; the rows below have the same stacks." } }
        }
    }
}

/// A moment in words.
pub(super) fn title(moment: &profile::Moment) -> String {
    match moment {
        profile::Moment::Aligned => "peak of the after, and the corresponding place of the before".to_owned(),
        profile::Moment::Peak => "peak".to_owned(),
        profile::Moment::Baseline => "start of the recording".to_owned(),
        profile::Moment::End => "end".to_owned(),
        profile::Moment::Oom => "first failed allocation".to_owned(),
        profile::Moment::Event(_)
        | profile::Moment::Time(_)
        | profile::Moment::Phase(_)
        | profile::Moment::Between(_) => format!("moment {moment}"),
    }
}

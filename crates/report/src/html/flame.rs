//! Who holds the memory, as boxes within boxes: the first moment as a still picture.

use maud::{Markup, html};
use ptmem_base::sides::Sides;
use ptmem_base::text::thousands;
use ptmem_base::units::{Delta, Size};
use ptmem_trace::profile::{self, Held};

use super::axes::share;
use super::name;
use crate::picture::{Flame, FlameMoment, Picture};
use crate::view::Section;

/// Height of a box in pixels.
const ROW: usize = 19;

/// Boxes narrower than the picture divided by this are left to the script.
const LEAST_PART: u64 = 400;

/// A box of the picture.
struct Place {
    node: usize,
    depth: usize,
    /// Bytes to the left of it.
    from: u64,
}

/// The figure of a section's memory by call stack.
pub(super) fn figure(section: &Section, picture: &Picture, id: &str) -> Markup {
    let Some(moment) = picture.flame.moments.first() else { return html! {} };
    let is_compared = picture.is_compared;
    html! {
        figure.flame aria-labelledby=(format!("{id}-flame")) {
            figcaption id=(format!("{id}-flame")) {
                @if is_compared {
                    "Who holds the memory at the " (title(&moment.which)) ": width is bytes, colour is the change from blue (less) to orange (more)"
                } @else {
                    "Who holds the memory at the " (title(&moment.which)) ": width is bytes, green is your code"
                }
            }
            div.controls {}
            (boxes(&picture.flame, moment, is_compared, &section.name))
            p.readout aria-live="polite" {}
        }
    }
}

/// A moment in words.
pub(super) fn title(moment: &profile::Moment) -> String {
    match moment {
        profile::Moment::Aligned(_) => "peak of the after, and the corresponding place of the before".to_owned(),
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

fn boxes(flame: &Flame, moment: &FlameMoment, is_compared: bool, subject: &str) -> Markup {
    let widths = flame.widths(moment);
    let held = flame.held(moment);
    let outermost = (0..flame.nodes.len()).filter(|&node| flame.nodes[node].parent.is_none());
    let total = outermost.fold(0, |sum: u64, node| sum.saturating_add(widths[node]));
    let places = places(flame, &widths, total);
    let deepest = places.iter().map(|place| place.depth).max().unwrap_or(0);
    html! {
        svg.boxes xmlns="http://www.w3.org/2000/svg" width="100%" height=((deepest + 1) * ROW) role="tree"
            aria-label=(format!("Memory of {subject} by call stack")) {
            @for place in &places {
                @let node = &flame.nodes[place.node];
                @let text = name(&node.frame.text());
                @let held = held[place.node];
                @let x = share(place.from, total, 100);
                @let width = share(widths[place.node], total, 100);
                svg class=(class(is_compared, held, widths[place.node], node.frame.is_user)) x=(format!("{x}%"))
                    y=(place.depth * ROW) width=(format!("{width}%")) height=(ROW - 1) role="treeitem"
                    aria-level=(place.depth + 1) aria-label=(format!("{text}: {}", amount(is_compared, held))) {
                    title { (text) ": " (amount(is_compared, held)) }
                    rect width="100%" height="100%" {}
                    @if width.0 > 2.0 { text x="4" y="13" { (text) } }
                }
            }
        }
    }
}

/// The boxes that are wide enough to be seen, each below the one that contains it, the widest to the left.
fn places(flame: &Flame, widths: &[u64], total: u64) -> Vec<Place> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); flame.nodes.len()];
    let mut outermost = Vec::new();
    for (number, node) in flame.nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => children[parent].push(number),
            None => outermost.push(number),
        }
    }
    let least = (total / LEAST_PART).max(1);
    let mut places = Vec::new();
    let mut open = vec![(outermost, 0_usize, 0_u64)];
    while let Some((mut nodes, depth, from)) = open.pop() {
        nodes.sort_by(|&a, &b| {
            widths[b].cmp(&widths[a]).then_with(|| flame.nodes[a].frame.text().cmp(&flame.nodes[b].frame.text()))
        });
        let mut from = from;
        for node in nodes.into_iter().filter(|&node| widths[node] >= least) {
            places.push(Place { node, depth, from });
            open.push((std::mem::take(&mut children[node]), depth + 1, from));
            from = from.saturating_add(widths[node]);
        }
    }
    places.sort_by_key(|place| (place.depth, place.from));
    places
}

/// The class of a box: by the change, from -3 to 3, or by whose code it is.
fn class(is_compared: bool, held: Sides<Held>, width: u64, is_user: bool) -> String {
    if !is_compared {
        return if is_user { "box user".to_owned() } else { "box library".to_owned() };
    }
    let share = held.delta().unsigned_abs().saturating_mul(100) / u128::from(width.max(1));
    let level = [2, 25, 60].into_iter().filter(|least| share >= *least).count();
    match held.delta() {
        _ if level == 0 => "box same".to_owned(),
        0.. => format!("box more{level}"),
        _ => format!("box less{level}"),
    }
}

fn amount(is_compared: bool, held: Sides<Held>) -> String {
    let Sides { before, after } = held;
    if is_compared {
        return format!("{} ({} before, {} after)", Delta(held.delta()), Size(before.bytes), Size(after.bytes));
    }
    format!("{} in {} blocks", Size(after.bytes), thousands(after.blocks))
}

//! The data that the script of the page draws from: JSON, deflated, in base64. It is part of the page, not a contract.

use std::io;

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use ptmem_base::json_writer::{list, object, one};
use ptmem_base::sides::Side;
use ptmem_compare::tree::CallFrame;
use ptmem_trace::replay::{Position, PrivatePool};

use super::chart::{Axis, Palette};
use super::{flame, timeline};
use crate::RenderOptions;
use crate::name::name;
use crate::picture::{FlameMoment, FlameNode, Picture, SideCurves};
use crate::place::Place;
use crate::source::Excerpt;
use crate::view::{Group, Section};

/// The longest line of a source file that is shown, in bytes.
const LONGEST_LINE: usize = 200;

/// The data of all sections; null for those without a picture.
pub(super) fn packed(sections: &[(&Group, &Section)], options: &RenderOptions) -> io::Result<String> {
    let pictures = sections.iter().map(|(_, section)| section.picture.as_ref());
    let data = one("sections", list(pictures.map(|picture| picture.map(|picture| SectionData(picture, options)))));
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut encoder, &data)?;
    Ok(BASE64.encode(&encoder.finish()?))
}

object! {
    SectionData<'a>(picture: &'a Picture, options: &'a RenderOptions) {
        compared: picture.is_compared,
        aligned: picture.is_aligned,
        // The scales.
        axes: Axis::of(picture),
        curves: list(picture.curves.iter().map(CurveData)),
        records: picture.records,
        // The labels of the rows.
        rows: picture.rows,
        categories: categories(picture),
        // The frames of the flame graph.
        nodes: list(picture.flame.nodes.iter().map(|node| NodeData(node, picture, options))),
        moments: list(picture.flame.moments.iter().map(|of| MomentData(of, picture.has_histories()))),
    }
}

/// The categories with the numbers of their colours, the lowest of the stack first.
fn categories(picture: &Picture) -> Vec<(String, usize)> {
    let palette = Palette::new(picture);
    picture.categories.iter().map(|category| (name(category), palette.colour(category))).collect()
}

object! {
    CurveData<'a>(curve: &'a SideCurves) {
        side: timeline::class(curve.side),
        label: curve.side.map_or("", Side::name),
        baseline: curve.baseline,
        marks: curve.events,
        bands: curve.bands,
        pools: list(curve.pools.iter().map(PoolData)),
        // Its points, if there is no history to draw it from.
        points: curve.is_coarse.then_some(&curve.points),
    }
}

object! {
    /// A private pool: the places of its history where the bytes that it reserves change, and those bytes.
    PoolData<'a>(pool: &'a PrivatePool) {
        name: name(&pool.name),
        curve: pool.curve,
    }
}

object! {
    NodeData<'a>(node: &'a FlameNode, picture: &'a Picture, options: &'a RenderOptions) {
        // The caller, null for the outermost.
        parent: node.parent,
        text: name(&node.frame.text()),
        user: node.frame.is_user,
        // Address of its line in the repository.
        href?: options.run.as_ref().zip(place(&node.frame, picture, options)).map(|(run, of)| run.line_address(&of.path, of.line)),
        source?: place(&node.frame, picture, options).and_then(|place| source(&node.frame, &place, options)),
    }
}

/// The line of a frame in the checkout.
fn place(frame: &CallFrame, picture: &Picture, options: &RenderOptions) -> Option<Place> {
    let recorded = picture.files.get(frame.path.as_ref()?)?;
    Some(Place { path: options.checkout.get(recorded)?.clone(), line: frame.line? })
}

/// The text of a line of the checkout.
fn source(frame: &CallFrame, place: &Place, options: &RenderOptions) -> Option<String> {
    let lines = Excerpt::new(place, &frame.name, options)?.lines;
    let line = lines.into_iter().find(|line| line.is_marked)?;
    Some(name(ptmem_base::text::cut(line.text.trim(), LONGEST_LINE)))
}

object! {
    MomentData<'a>(moment: &'a FlameMoment, has_histories: bool) {
        title: flame::title(&moment.which),
        // The places on both sides: events before them.
        before: moment.at.before.map(Position::count),
        after: moment.at.after.map(Position::count),
        // The memory that each node holds itself, if it cannot be taken from a history.
        held: (!has_histories).then_some(&moment.own),
    }
}

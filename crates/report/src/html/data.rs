//! The data that the script of the page draws from, as JSON. It is part of the page, not a contract.

use std::collections::BTreeMap;
use std::io;

use ptmem_base::sides::Side;
use ptmem_compare::tree::Frame;
use ptmem_trace::replay::{Position, PrivatePool};
use serde::Serialize;

use super::chart::{Axis, Palette};
use super::packed::{self, Packed};
use super::{flame, name, timeline};
use crate::RenderOptions;
use crate::picture::{Band, Curve, Event, EventKind, FlameMoment, Picture, Spot};
use crate::place::Place;
use crate::source::Excerpt;
use crate::view::{Group, Section};
use ptmem_base::json_writer::{self as json, list, object, one};

/// The longest line of a source file that is shown, in bytes.
const LONGEST_LINE: usize = 200;

/// The data of all sections, safe within a script element: without any `<`.
pub(super) fn json(sections: &[(&Group, &Section)], options: &RenderOptions) -> io::Result<String> {
    let pictures = sections.iter().map(|(_, section)| section.picture.as_ref());
    let with_records = pictures.map(|picture| Ok((picture, records(picture)?)));
    let all: Vec<(Option<&Picture>, Records)> = with_records.collect::<io::Result<_>>()?;
    let data = one("sections", list(all.iter().map(|(picture, records)| SectionData(*picture, records, options))));
    Ok(json::line(&data)?.replace('<', "\\u003c"))
}

/// Histories by the names of their sides.
type Records = BTreeMap<&'static str, Packed>;

fn records(picture: Option<&Picture>) -> io::Result<Records> {
    let sides = picture.into_iter().flat_map(|picture| picture.records.each());
    let known = sides.filter_map(|(side, record)| Some((timeline::class(Some(side)), record.as_ref()?)));
    known.map(|(side, record)| Ok((side, packed::pack(record)?))).collect()
}

object! {
    SectionData<'a>(picture: Option<&'a Picture>, records: &'a Records, options: &'a RenderOptions) {
        compared: picture.is_some_and(|picture| picture.is_compared),
        aligned: picture.is_some_and(|picture| picture.is_aligned),
        // Names of the scales.
        axes: list(picture.into_iter().flat_map(Axis::of).map(Axis::name)),
        curves: list(picture.into_iter().flat_map(|picture| &picture.curves).map(CurveData)),
        records,
        // The labels of the rows.
        rows: list(picture.into_iter().flat_map(|picture| &picture.rows).map(|label| name(label))),
        categories: picture.map(categories).unwrap_or_default(),
        flame: picture.map(|picture| of_flame(picture, records, options)).unwrap_or_default(),
    }
}

/// The categories with the numbers of their colours, the lowest of the stack first.
fn categories(picture: &Picture) -> Vec<(String, usize)> {
    let palette = Palette::new(picture);
    picture.categories.iter().map(|category| (name(category), palette.colour(category))).collect()
}

object! {
    CurveData<'a>(curve: &'a Curve) {
        side: timeline::class(curve.side),
        label: curve.side.map_or("", Side::name),
        baseline: curve.baseline,
        marks: list(curve.events.iter().map(|event| MarkData(curve, event))),
        bands: list(curve.bands.iter().map(BandData)),
        pools: list(curve.pools.iter().map(PoolData)),
        // Its points, if there is no history to draw it from.
        points: curve.is_coarse.then_some(PointsData(curve)),
    }
}

object! {
    /// The bytes that a private pool reserves, and the events after which it does.
    PoolData<'a>(pool: &'a PrivatePool) {
        name: name(&pool.name),
        from: list(pool.curve.iter().map(|(at, _)| at.event_index())),
        reserved: list(pool.curve.iter().map(|(_, bytes)| *bytes)),
    }
}

object! {
    /// The points of a coarse curve in columns; each number is the difference to the one before it.
    PointsData<'a>(curve: &'a Curve) {
        time: column(curve, Axis::Time),
        event: column(curve, Axis::Event).unwrap_or_default(),
        allocated: differences(curve.points.iter().map(|point| signed(point.allocated))),
        reserved: reserved(curve).map(|bytes| differences(bytes.into_iter().map(signed))),
    }
}

/// The reserved bytes of all points, where they are known.
fn reserved(curve: &Curve) -> Option<Vec<u64>> {
    curve.points.iter().map(|point| point.reserved).collect()
}

/// The places of the points of a curve on a scale, where all of them have one.
fn column(curve: &Curve, axis: Axis) -> Option<Vec<i64>> {
    let values: Option<Vec<i64>> = curve.points.iter().map(|point| axis.value(&point.spot)).collect();
    values.map(|values| differences(values.into_iter()))
}

object! {
    MarkData<'a>(curve: &'a Curve, event: &'a Event) {
        kind: match event.kind {
            EventKind::AllocatedPeak => "peak",
            EventKind::ReservedPeak => "reserved",
            EventKind::OutOfMemory { .. } => "failure",
        },
        at: spot(&event.spot),
        bytes: event.bytes,
        text: timeline::mark_text(curve, event),
        // For a failed allocation: the requested size, and the largest free block that could have served it.
        requested: match event.kind {
            EventKind::OutOfMemory { requested, .. } => Some(requested),
            EventKind::AllocatedPeak | EventKind::ReservedPeak => None,
        },
        largest: match event.kind {
            EventKind::OutOfMemory { largest, .. } => largest,
            EventKind::AllocatedPeak | EventKind::ReservedPeak => None,
        },
    }
}

object! {
    BandData<'a>(band: &'a Band) {
        name: name(&band.name),
        depth: band.depth,
        from: spot(&band.from),
        to: spot(&band.to),
        peak: band.peak,
    }
}

/// A moment by program, time and event.
fn spot(spot: &Spot) -> [Option<i64>; 3] {
    Axis::ALL.map(|axis| axis.value(spot))
}

#[derive(Serialize, Default)]
struct FlameData<'a> {
    frames: Vec<FrameData>,
    /// The caller of each node, -1 for the outermost.
    parent: Vec<i64>,
    /// The frame of each node.
    frame: Vec<usize>,
    moments: Vec<MomentData<'a>>,
}

#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord, Clone)]
struct FrameData {
    text: String,
    user: bool,
    /// Address of its line in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    href: Option<String>,
    /// Its line in the checkout.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

object! {
    MomentData<'a>(moment: &'a FlameMoment, has_histories: bool) {
        title: flame::title(&moment.which),
        // The places on both sides: events before them.
        before: moment.at.before.map(Position::count),
        after: moment.at.after.map(Position::count),
        // The memory held, if it cannot be taken from a history.
        held: (!has_histories).then_some(HeldData(moment)),
    }
}

object! {
    /// Nodes that hold memory themselves, each as the difference to the one before it.
    HeldData<'a>(moment: &'a FlameMoment) {
        node: differences(moment.own.keys().map(|&node| signed(node as u64))),
        beforeBytes: list(moment.own.values().map(|held| held.before.bytes)),
        afterBytes: list(moment.own.values().map(|held| held.after.bytes)),
        beforeBlocks: list(moment.own.values().map(|held| held.before.blocks)),
        afterBlocks: list(moment.own.values().map(|held| held.after.blocks)),
    }
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Each value as the difference to the one before it.
pub(super) fn differences(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut last = 0;
    values.map(|value| value.wrapping_sub(std::mem::replace(&mut last, value))).collect()
}

fn of_flame<'a>(picture: &'a Picture, records: &Records, options: &RenderOptions) -> FlameData<'a> {
    let of = &picture.flame;
    let has_histories = !records.is_empty() && picture.curves.len() == records.len();
    let mut numbers: BTreeMap<FrameData, usize> = BTreeMap::new();
    let mut frames = Vec::new();
    let mut frame = Vec::with_capacity(of.nodes.len());
    for node in &of.nodes {
        let data = frame_data(&node.frame, picture, options);
        let number = *numbers.entry(data.clone()).or_insert(frames.len());
        if number == frames.len() {
            frames.push(data);
        }
        frame.push(number);
    }
    let parent = of.nodes.iter().map(|node| node.parent.map_or(-1, |parent| signed(parent as u64)));
    let moments = of.moments.iter().map(|of| MomentData(of, has_histories)).collect();
    FlameData { frames, parent: parent.collect(), frame, moments }
}

fn frame_data(frame: &Frame, picture: &Picture, options: &RenderOptions) -> FrameData {
    let recorded = frame.path.as_ref().and_then(|path| picture.files.get(path));
    let path = recorded.and_then(|recorded| options.checkout.get(recorded));
    let place = path.zip(frame.line);
    let excerpt = place.and_then(|(path, line)| {
        let place = Place { path: path.clone(), line };
        Excerpt::new(&place, &frame.name, options)
    });
    let source = excerpt.and_then(|excerpt| excerpt.lines.into_iter().find(|line| line.is_marked));
    FrameData {
        text: name(&frame.text()),
        user: frame.is_user,
        href: options.run.as_ref().zip(place).map(|(run, (path, line))| run.line_address(path, line)),
        source: source.map(|line| name(ptmem_base::text::cut(line.text.trim(), LONGEST_LINE))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_differences() {
        assert_eq!(differences([5, 7, 7, -1].into_iter()), [5, 2, 0, -8]);
    }
}

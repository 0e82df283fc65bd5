//! The data that the script of the page draws from, as JSON. It is part of the page, not a contract.

use std::collections::BTreeMap;

use serde::Serialize;

use super::chart::Axis;
use super::packed::{self, Packed};
use super::palette::Palette;
use super::{flame, name, timeline};
use crate::picture::{Band, Curve, Event, EventKind, Moment, Picture, Spot};
use crate::profile::Held;
use crate::report::place::Place;
use crate::report::source::Excerpt;
use crate::report::view::{Group, Section};
use crate::report::{Error, Options};
use crate::sides::{Side, Sides};
use crate::tree::Frame;

/// The longest line of a source file that is shown, in bytes.
const LONGEST_LINE: usize = 200;

#[derive(Serialize)]
struct Data {
    sections: Vec<SectionData>,
}

#[derive(Serialize, Default)]
struct SectionData {
    compared: bool,
    aligned: bool,
    /// Names and titles of the scales.
    axes: Vec<[&'static str; 2]>,
    curves: Vec<CurveData>,
    /// The histories by the names of their sides.
    records: BTreeMap<&'static str, Packed>,
    /// The labels of the rows.
    rows: Vec<String>,
    /// The categories with the numbers of their colours, the lowest of the stack first.
    categories: Vec<(String, usize)>,
    flame: FlameData,
}

/// A curve.
#[derive(Serialize)]
struct CurveData {
    side: &'static str,
    label: &'static str,
    baseline: Option<u64>,
    marks: Vec<MarkData>,
    bands: Vec<BandData>,
    /// Its points, where there is no history to draw it from.
    points: Option<PointsData>,
}

/// The points of a coarse curve in columns; each number is the difference to the one before it.
#[derive(Serialize)]
struct PointsData {
    time: Option<Vec<i64>>,
    event: Vec<i64>,
    allocated: Vec<i64>,
    reserved: Option<Vec<i64>>,
}

/// A moment by program, time and event.
type SpotData = [Option<i64>; 3];

#[derive(Serialize)]
struct MarkData {
    kind: &'static str,
    at: SpotData,
    bytes: u64,
    text: String,
    /// Of a failed allocation: what was asked for, and the largest free block that could have served it.
    requested: Option<u64>,
    largest: Option<u64>,
}

#[derive(Serialize)]
struct BandData {
    name: String,
    depth: u32,
    from: SpotData,
    to: SpotData,
    peak: u64,
}

#[derive(Serialize, Default)]
struct FlameData {
    frames: Vec<FrameData>,
    /// The caller of each node, -1 for the outermost.
    parent: Vec<i64>,
    /// The frame of each node.
    frame: Vec<usize>,
    moments: Vec<MomentData>,
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

#[derive(Serialize)]
struct MomentData {
    title: String,
    /// The places on both sides: events before them.
    before: Option<u64>,
    after: Option<u64>,
    /// What was held, where there is no history that tells it.
    held: Option<HeldData>,
}

#[derive(Serialize)]
struct HeldData {
    /// Nodes that hold memory themselves, each as the difference to the one before it.
    node: Vec<i64>,
    #[serde(rename = "beforeBytes")]
    before_bytes: Vec<u64>,
    #[serde(rename = "afterBytes")]
    after_bytes: Vec<u64>,
    #[serde(rename = "beforeBlocks")]
    before_blocks: Vec<u64>,
    #[serde(rename = "afterBlocks")]
    after_blocks: Vec<u64>,
}

/// The data of all sections, as it may stand within a script element: without any `<`.
pub(super) fn json(sections: &[(&Group, &Section)], options: &Options) -> Result<String, Error> {
    let sections: Result<Vec<SectionData>, Error> =
        sections.iter().map(|(_, section)| of_section(section, options)).collect();
    let data = Data { sections: sections? };
    Ok(crate::text::printable_json(serde_json::to_string(&data)?).replace('<', "\\u003c"))
}

fn of_section(section: &Section, options: &Options) -> Result<SectionData, Error> {
    section.picture.as_ref().map_or_else(|| Ok(SectionData::default()), |picture| of_picture(picture, options))
}

fn of_picture(picture: &Picture, options: &Options) -> Result<SectionData, Error> {
    let palette = Palette::new(picture);
    let mut records = BTreeMap::new();
    for (side, record) in picture.records.each() {
        if let Some(record) = record {
            records.insert(timeline::class(Some(side)), packed::pack(record)?);
        }
    }
    let has_all = picture.curves.len() == records.len() && !records.is_empty();
    Ok(SectionData {
        compared: picture.is_compared,
        aligned: picture.is_aligned,
        axes: Axis::of(picture).into_iter().map(|axis| [axis.name(), axis.title()]).collect(),
        curves: picture.curves.iter().map(curve).collect(),
        records,
        rows: picture.rows.iter().map(|label| name(label)).collect(),
        categories: picture.categories.iter().map(|category| (name(category), palette.colour(category))).collect(),
        flame: of_flame(picture, has_all, options),
    })
}

fn curve(curve: &Curve) -> CurveData {
    CurveData {
        side: timeline::class(curve.side),
        label: curve.side.map_or("", Side::name),
        baseline: curve.baseline,
        marks: curve.events.iter().map(|event| mark(curve, event)).collect(),
        bands: curve.bands.iter().map(band).collect(),
        points: curve.is_coarse.then(|| points(curve)),
    }
}

fn points(curve: &Curve) -> PointsData {
    let reserved: Option<Vec<u64>> = curve.points.iter().map(|point| point.reserved).collect();
    PointsData {
        time: column(curve, Axis::Time),
        event: column(curve, Axis::Event).unwrap_or_default(),
        allocated: differences(curve.points.iter().map(|point| signed(point.allocated))),
        reserved: reserved.map(|bytes| differences(bytes.into_iter().map(signed))),
    }
}

/// The places of the points of a curve on a scale, where all of them have one.
fn column(curve: &Curve, axis: Axis) -> Option<Vec<i64>> {
    let values: Option<Vec<i64>> = curve.points.iter().map(|point| axis.value(&point.spot)).collect();
    values.map(|values| differences(values.into_iter()))
}

fn mark(curve: &Curve, event: &Event) -> MarkData {
    let mark = MarkData {
        kind: "peak",
        at: spot(&event.spot),
        bytes: event.bytes,
        text: timeline::mark_text(curve, event),
        requested: None,
        largest: None,
    };
    match event.kind {
        EventKind::AllocatedPeak => mark,
        EventKind::ReservedPeak => MarkData { kind: "reserved", ..mark },
        EventKind::OutOfMemory { requested, largest } => {
            MarkData { kind: "failure", requested: Some(requested), largest, ..mark }
        }
    }
}

fn band(band: &Band) -> BandData {
    BandData { name: name(&band.name), depth: band.depth, from: spot(&band.from), to: spot(&band.to), peak: band.peak }
}

fn spot(spot: &Spot) -> SpotData {
    Axis::ALL.map(|axis| axis.value(spot))
}

pub(super) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Each value as the difference to the one before it.
pub(super) fn differences(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut last = 0;
    values.map(|value| value.wrapping_sub(std::mem::replace(&mut last, value))).collect()
}

fn of_flame(picture: &Picture, has_histories: bool, options: &Options) -> FlameData {
    let of = &picture.flame;
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
    let moments = of.moments.iter().map(|of| moment(of, has_histories)).collect();
    FlameData { frames, parent: parent.collect(), frame, moments }
}

fn moment(moment: &Moment, has_histories: bool) -> MomentData {
    MomentData {
        title: flame::title(&moment.kind),
        before: moment.at.before.map(|at| at.count() as u64),
        after: moment.at.after.map(|at| at.count() as u64),
        held: (!has_histories).then(|| held(moment)),
    }
}

fn held(moment: &Moment) -> HeldData {
    let own: Vec<&Sides<Held>> = moment.own.iter().map(|(_, held)| held).collect();
    HeldData {
        node: differences(moment.own.iter().map(|(node, _)| signed(*node as u64))),
        before_bytes: own.iter().map(|held| held.before.bytes).collect(),
        after_bytes: own.iter().map(|held| held.after.bytes).collect(),
        before_blocks: own.iter().map(|held| held.before.blocks).collect(),
        after_blocks: own.iter().map(|held| held.after.blocks).collect(),
    }
}

fn frame_data(frame: &Frame, picture: &Picture, options: &Options) -> FrameData {
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
        source: source.map(|line| name(crate::text::cut(line.text.trim(), LONGEST_LINE))),
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

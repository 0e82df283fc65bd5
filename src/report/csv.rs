//! Comma-separated values: a row per stack or leak, or per phase or part of the history where these are asked for; all of
//! them, whatever the limits.

use ::csv::Writer;

use super::finding::{Codes, place};
use super::{Error, Options, Subject, phases};
use crate::diff::{Row, RowKind};
use crate::profile::Bucket;
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::text::printable;
use crate::verdict::Finding;

pub(super) fn render(subject: Subject<'_>, options: &Options) -> Result<String, Error> {
    let mut out = Writer::from_writer(Vec::new());
    if let Some(records) = phases::records(subject, options) {
        for record in records {
            out.write_record(record)?;
        }
        return finish(out);
    }
    match subject {
        Subject::Gate(gate) => {
            out.write_record([
                "comparison",
                "before_device",
                "after_device",
                "change",
                "moved",
                "label",
                "path",
                "line",
                "key",
                "bucket",
                "before",
                "after",
                "delta",
                "before_blocks",
                "after_blocks",
            ])?;
            let mut known = Codes::default();
            for comparison in &gate.comparisons {
                let (diff, name) = (&comparison.diff, comparison.name.as_deref().unwrap_or_default());
                let codes = known.of(diff);
                for device in &diff.devices {
                    let number = |device: Option<u32>| device.map(|device| device.to_string()).unwrap_or_default();
                    let held = |row: &&Row| row.held.before.bytes > 0 || row.held.after.bytes > 0;
                    for row in device.rows.iter().filter(held) {
                        let (code, stack) = match (row.stack.after, row.stack.before) {
                            (Some(stack), _) => (&codes.after, Some(stack)),
                            (None, stack) => (&codes.before, stack),
                        };
                        let [path, line] = site(code, stack, options);
                        out.write_record([
                            name,
                            &number(device.device.before),
                            &number(device.device.after),
                            row.change.name(),
                            if row.moved { "true" } else { "false" },
                            &printable(&row.label),
                            &path,
                            &line,
                            &row.key,
                            match row.kind {
                                RowKind::Stack => "",
                                RowKind::Bucket(bucket) => bucket.code(),
                                RowKind::Others(_) => Bucket::Others.code(),
                            },
                            &row.held.before.bytes.to_string(),
                            &row.held.after.bytes.to_string(),
                            &row.delta().to_string(),
                            &row.held.before.blocks.to_string(),
                            &row.held.after.blocks.to_string(),
                        ])?;
                    }
                }
            }
        }
        Subject::Profile(..) | Subject::Ranks(_) => {
            let is_one = matches!(subject, Subject::Profile(..));
            let columns = [
                "device",
                "label",
                "path",
                "line",
                "key",
                "bucket",
                "baseline",
                "peak",
                "end",
                "at",
                "baseline_blocks",
                "peak_blocks",
                "end_blocks",
                "at_blocks",
                "allocations",
                "allocated_total",
            ];
            out.write_record((!is_one).then_some("rank").into_iter().chain(columns))?;
            for (name, profile, _) in subject.profiles() {
                let code = profile.code();
                for device in &profile.devices {
                    for total in device.listed(0, 0) {
                        let [path, line] = site(&code, total.stack(), options);
                        let held = [total.baseline, total.peak, total.end, total.at];
                        let numbers = held.map(|held| held.bytes).into_iter().chain(held.map(|held| held.blocks));
                        let numbers = numbers.chain([total.allocations, total.allocated_total]);
                        let texts = [
                            device.device.to_string(),
                            printable(&total.label),
                            path,
                            line,
                            total.key.0.clone(),
                            total.bucket.map(Bucket::code).unwrap_or_default().to_owned(),
                        ];
                        let texts = name.map(printable).into_iter().chain(texts);
                        out.write_record(texts.chain(numbers.map(|number| number.to_string())))?;
                    }
                }
            }
        }
        Subject::Leaks(gate) => {
            out.write_record([
                "name",
                "rank",
                "device",
                "label",
                "path",
                "line",
                "key",
                "bucket",
                "bytes",
                "blocks",
                "bytes_per_step",
                "steps_grown",
                "steps_judged",
                "end",
                "end_blocks",
            ])?;
            for Finding { search, .. } in &gate.findings {
                let code = search.code();
                for (device, leak) in search.leaks() {
                    let [path, line] = site(&code, leak.stack, options);
                    out.write_record([
                        printable(search.name.as_deref().unwrap_or_default()),
                        search.rank.map(|rank| rank.to_string()).unwrap_or_default(),
                        device.device.to_string(),
                        printable(&leak.label),
                        path,
                        line,
                        leak.key.clone(),
                        leak.bucket.map(Bucket::code).unwrap_or_default().to_owned(),
                        leak.bytes.to_string(),
                        leak.blocks.to_string(),
                        leak.bytes_per_step.to_string(),
                        leak.grew.to_string(),
                        leak.judged.to_string(),
                        leak.end.bytes.to_string(),
                        leak.end.blocks.to_string(),
                    ])?;
                }
            }
        }
    }
    finish(out)
}

fn finish(out: Writer<Vec<u8>>) -> Result<String, Error> {
    let bytes = out.into_inner().map_err(|error| Error::Csv(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Path and line of the frame to blame.
fn site(code: &Code<'_>, stack: Option<StackId>, options: &Options) -> [String; 2] {
    let site = stack.and_then(|stack| code.site(stack));
    let path = site.map(|site| options.checkout.get(code.file(site)).map_or_else(|| code.path(site), String::as_str));
    let line = site.and_then(|site| place(code, site, options)).map(|place| place.line.to_string());
    [printable(path.unwrap_or_default()), line.unwrap_or_default()]
}

impl From<::csv::Error> for Error {
    fn from(error: ::csv::Error) -> Self {
        Self::Csv(error.to_string())
    }
}

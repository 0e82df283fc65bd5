//! Every diagnostic has an input that produces it: a small history, written down here, or a fixture.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::edit::Edited;
use crate::support::history::{A, B, KIB, MIB, Tensors, event, frame, frames, free, segment, snapshot, train};
use crate::support::pickle::{self, Value};
use crate::support::program::Program;
use crate::support::tool::{commit, git, ptmem, text};
use crate::support::{fixtures, signed};
use ptmem::diagnostic::Code;
use serde_json::{Value as Json, json};

type Codes = BTreeSet<String>;

/// A folder of its own for the files of one code.
struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, value: &Value) {
        fs::write(self.path(name), pickle::write(value, pickle::Options::default())).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The codes in the JSON report of a command, whatever its verdict.
    fn codes(&self, arguments: &[&str]) -> Codes {
        let output = ptmem(self.folder.path(), &[arguments, &["--format", "json"]].concat());
        assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
        let report: Json = serde_json::from_slice(&output.stdout).unwrap();
        let mut found = Codes::new();
        collect(&report, &mut found);
        found
    }

    /// Makes the folder a repository whose commit has these limits, and the checkout wide ones.
    fn show(&self, value: &Value) -> Codes {
        self.write("made.pkl", value);
        self.codes(&["show", "made.pkl"])
    }

    /// A folder of nightly snapshots, with the MiB that each holds at its end.
    fn series(&self, held: &[u64]) -> PathBuf {
        let folder = self.path("nights");
        fs::create_dir(&folder).unwrap();
        for (night, &held) in held.iter().enumerate() {
            let segments = vec![segment(A, &[(held * MIB, true), ((20 - held) * MIB, false)])];
            let events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, held * MIB)];
            self.write(&format!("nights/night-{night}.pkl"), &snapshot(segments, events));
        }
        folder
    }

    fn diff(&self, before: &Value, after: &Value, limits: &[&str]) -> Codes {
        self.write("before.pkl", before);
        self.write("after.pkl", after);
        self.codes(&[&["diff", "before.pkl", "after.pkl"], limits].concat())
    }
}

/// Diagnostics stand at several places of a report; all of them are lists of that name.
fn collect(report: &Json, found: &mut Codes) {
    match report {
        Json::Object(fields) => {
            if let Some(Json::Array(diagnostics)) = fields.get("diagnostics") {
                found.extend(diagnostics.iter().map(|diagnostic| diagnostic["code"].as_str().unwrap().to_owned()));
            }
            fields.values().for_each(|value| collect(value, found));
        }
        Json::Array(items) => items.iter().for_each(|item| collect(item, found)),
        _ => {}
    }
}

fn fixture(name: &str) -> String {
    fixtures::folder().join(name).display().to_string()
}

/// A segment of 20 MiB with one block of 4 MiB in use.
fn segments() -> Vec<Value> {
    vec![segment(A, &[(4 * MIB, true), (16 * MIB, false)])]
}

/// The segment comes from the driver, and the block is allocated.
fn events() -> Vec<Value> {
    vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB)]
}

/// The whole story: a segment, a block, and what comes after.
fn story(more: impl IntoIterator<Item = Value>) -> Value {
    snapshot(segments(), events().into_iter().chain(more).collect())
}

/// A block above [`segments`]' one that is allocated and freed again.
fn passing_block() -> Vec<Value> {
    let mut events = vec![event("alloc", A + 4 * MIB, 6 * MIB)];
    events.extend(free(A + 4 * MIB, 6 * MIB));
    events
}

/// Three named steps, each of which may keep a block.
fn three_steps(keeps: bool) -> Value {
    let mut program = Program::default();
    for step in 0..3 {
        program.mark("START", &format!("ProfilerStep#{step}"));
        program.work();
        if keeps {
            program.alloc(format!("kept {step}"), "train:30", 512);
        }
        program.mark("END", &format!("ProfilerStep#{step}"));
    }
    program.value()
}

/// A thousand events, the first of which free a block that nothing allocates.
fn full_ring() -> Vec<Value> {
    let mut all = free(A + 4 * MIB, 6 * MIB).to_vec();
    while all.len() + 3 <= 1000 {
        all.extend(passing_block());
    }
    all.push(event("snapshot", 0, 4 * MIB));
    all.push(event("snapshot", 0, 4 * MIB));
    all.truncate(1000);
    all
}

/// The story with facts about its run.
fn of_run(mut facts: Json) -> Value {
    facts["format"] = 1.into();
    story([]).with("ptmem", facts)
}

/// PyTorch's counters around [`story`], with so many bytes allocated at the dump.
fn counters(end: u64) -> Json {
    let at = |bytes: u64| json!({"current": {"allocated_bytes": bytes}, "peak": {"allocated_bytes": bytes}, "calls": [0, 0]});
    json!({"device": 0, "start": at(0), "dump": at(end)})
}

fn imported_elsewhere() -> Json {
    json!({"name": "tower", "path": "/opt/tower", "inside": false, "digest": "d", "same": false})
}

fn settings(value: &str) -> Value {
    story([]).with("allocator_settings", Value::dict([("PYTORCH_CUDA_ALLOC_CONF", value.into())]))
}

/// Device 0 with [`story`], and device 1 with the same and more.
fn two_devices(more: Vec<Value>) -> Value {
    let second = segments().into_iter().map(|segment| segment.with("device", 1));
    let longer: Vec<Value> = events().into_iter().chain(more).collect();
    Value::dict([
        ("segments", segments().into_iter().chain(second).collect::<Vec<_>>().into()),
        ("device_traces", vec![events().into(), longer.into()].into()),
    ])
}

/// Frees a block of unknown size in the recording: 100 KiB less than 6 MiB were asked for.
fn bounded() -> Value {
    let mut all = events();
    all.extend(free(A + 4 * MIB, 6 * MIB - 100 * KIB));
    snapshot(segments(), all)
}

fn annotation(stage: &str) -> Value {
    Value::dict([
        ("stage", stage.into()),
        ("name", "forward".into()),
        ("device", 0.into()),
        ("time_us", 1_700_000_000_000_000_u64.into()),
    ])
}

/// A phase from its beginning to its end.
fn phase() -> Vec<Value> {
    vec![annotation("START"), annotation("END")]
}

/// A segment whose blocks carry frames.
fn with_frames(segment: Value) -> Value {
    let Value::Dict(pairs) = &segment else { panic!("no segment") };
    let (_, Value::List(blocks)) = pairs.iter().find(|(key, _)| *key == "blocks".into()).unwrap() else {
        panic!("no blocks")
    };
    let blocks: Vec<Value> = blocks.iter().map(|block| block.clone().with("frames", frames("main"))).collect();
    segment.with("blocks", blocks)
}

/// A segment as release 2.0 writes it.
fn without_block_addresses(segment: Value) -> Value {
    let Value::Dict(pairs) = &segment else { panic!("no segment") };
    let (_, Value::List(blocks)) = pairs.iter().find(|(key, _)| *key == "blocks".into()).unwrap() else {
        panic!("no blocks")
    };
    let blocks: Vec<Value> = blocks.iter().map(|block| block.clone().without("address")).collect();
    segment.with("blocks", blocks)
}

/// Tells whether an event is of an action.
fn is(event: &Value, action: &str) -> bool {
    let Value::Dict(pairs) = event else { panic!("no event") };
    pairs.contains(&("action".into(), action.into()))
}

/// Codes of the input that was made for `code`.
fn produce(code: Code) -> Codes {
    let case = Case::new();
    match code {
        Code::StateOnly => case.show(&snapshot(segments(), vec![])),
        Code::EmptyRecording => case.show(&snapshot(vec![], vec![])),
        Code::AllocationsSkipped => {
            // The same block twice: it was allocated in between.
            let frees = free(A + 4 * MIB, 6 * MIB).into_iter().chain(free(A + 4 * MIB, 6 * MIB));
            case.show(&snapshot(segments(), frees.collect()))
        }
        Code::FreesSkipped => {
            let again = event("alloc", A, 4 * MIB);
            case.show(&story([again]))
        }
        Code::CompletionsSkipped => {
            let all = passing_block().into_iter().filter(|event| !is(event, "free_completed"));
            case.show(&story(all))
        }
        Code::RequestsSkipped => {
            let all = passing_block().into_iter().filter(|event| !is(event, "free_requested"));
            case.show(&story(all))
        }
        // More comes from the driver than the state has, and nothing goes back.
        Code::SegmentsSkipped => case.show(&story([event("segment_alloc", B, 20 * MIB)])),
        Code::SegmentsUnknown => case.show(&story([event("alloc", B, 2 * MIB), event("free_completed", B, 2 * MIB)])),
        Code::HistoryTruncated => case.show(&snapshot(segments(), full_ring())),
        Code::FreesWithoutAllocation => {
            let mut all = events();
            all.extend(free(A + 4 * MIB, 6 * MIB));
            case.show(&snapshot(segments(), all))
        }
        Code::AllocatedBeforeRecording => {
            let older = segments().into_iter().map(with_frames).collect();
            case.show(&snapshot(older, passing_block()))
        }
        Code::SizesNotRecovered => {
            let larger = vec![segment(A, &[(5 * MIB, true), (15 * MIB, false)])];
            case.show(&snapshot(larger, events()))
        }
        Code::CheckpointMismatch => case.show(&story([event("snapshot", 0, 9 * MIB), event("snapshot", 0, 9 * MIB)])),
        Code::EndMismatch => {
            let empty = vec![segment(A, &[(20 * MIB, false)])];
            case.show(&snapshot(empty, events()))
        }
        Code::BaselineMismatch => case.show(&story([event("alloc", A, 4 * MIB), event("alloc", A, 4 * MIB)])),
        Code::EventsInconsistent => {
            let mut all = passing_block();
            all.extend(free(A + 4 * MIB, 6 * MIB));
            case.show(&story(all))
        }
        Code::BlocksOverlap => {
            let mut all = vec![event("alloc", A + 2 * MIB, 2 * MIB)];
            all.extend(free(A + 2 * MIB, 2 * MIB));
            case.show(&story(all))
        }
        Code::SegmentSums => {
            let wrong = segments().into_iter().map(|segment| segment.with("total_size", 24 * MIB)).collect();
            case.show(&snapshot(wrong, events()))
        }
        Code::LimitNotChecked => {
            let made = snapshot(segments(), events());
            case.diff(&made, &made, &["--max-growth", "phase=5%", "--max-growth", "5%"])
        }
        Code::NotRead => case.show(&snapshot(segments(), events()).with("brand_new", 1)),
        Code::TimeBackwards => case.show(&story(passing_block().into_iter().map(|event| event.with("time_us", 1)))),
        Code::SizesBounded => case.show(&bounded()),
        Code::FreeRequestedBefore => {
            let mut all = vec![event("free_completed", A + 4 * MIB, 6 * MIB)];
            all.extend(events().into_iter().skip(1));
            all.extend(passing_block());
            case.show(&snapshot(segments(), all))
        }
        // Blocks of release 2.0 have no address, and the segment is older than the recording.
        Code::FreesNotRecorded => {
            let old = segments().into_iter().map(without_block_addresses).collect();
            case.show(&snapshot(old, events().into_iter().skip(1).chain(passing_block()).collect()))
        }
        Code::SettingsAssumed => case.show(&story([])),
        // The rest of 5 MiB is split off unless max_split_size_mb forbids it.
        Code::SettingsChanged => {
            let whole = vec![segment(A, &[(30 * MIB, true)])];
            case.show(&snapshot(whole, vec![event("segment_alloc", A, 30 * MIB), event("alloc", A, 25 * MIB)]))
        }
        Code::PhasesCut => {
            let phases: Vec<Value> = (0..70_000).flat_map(|_| phase()).collect();
            case.show(&story([]).with("external_annotations", phases))
        }
        Code::PhasesIrregular => case.show(&story([]).with("external_annotations", vec![annotation("START")])),
        Code::FragmentationGrows => case.codes(&["leak", &fixture("fragmentation-series")]),
        Code::AllocatedGrows => case.codes(&["leak", &fixture("recorded/corners/mid-run-2.11.0.pkl.zst")]),
        Code::DeviceMissing => case.diff(&two_devices(vec![]), &story([]), &[]),
        Code::NoSuchMoment => {
            let both = two_devices(passing_block());
            case.diff(&both, &both, &["--at", "event:3"])
        }
        Code::PlacesNotAligned => case.codes(&["diff", &fixture("before.pkl"), &fixture("kv-cache.pkl")]),
        Code::RecordingsDiffer => case.diff(&story([]), &snapshot(segments(), vec![]), &[]),
        Code::LittleInCommon => case.codes(&["diff", &fixture("before.pkl"), &fixture("leak.pkl")]),
        Code::LengthsDiffer => {
            let longer = passing_block().into_iter().chain(passing_block());
            case.diff(&story([]), &story(longer), &[])
        }
        Code::PartMissing => {
            let mut cut = Edited::open(Path::new(&fixture("mid-forward.pkl")));
            cut.keep_events(40, 100);
            cut.write(&case.path("cut.pkl"));
            case.codes(&["diff", &fixture("mid-forward.pkl"), "cut.pkl"])
        }
        Code::PartsNotChecked => {
            let sizes = |count: u64| {
                story((1..=count).flat_map(move |number| {
                    let size = 512 * number;
                    [event("alloc", A + 4 * MIB, size)].into_iter().chain(free(A + 4 * MIB, size))
                }))
            };
            case.diff(&sizes(30), &sizes(60), &[])
        }
        Code::SettingsDiffer => case.diff(&settings("max_split_size_mb:64"), &settings("max_split_size_mb:128"), &[]),
        Code::PhaseOccurrencesDiffer => {
            let once = story([]).with("external_annotations", phase());
            let twice = story([]).with("external_annotations", [phase(), phase()].concat());
            case.diff(&once, &twice, &["--max-growth", "phase:*=1GiB"])
        }
        Code::StepsLeaveMore => case.diff(&three_steps(false), &three_steps(true), &[]),
        Code::PhaseNotCompared => {
            let named = story([]).with("external_annotations", phase());
            case.diff(&story([]), &named, &["--max-growth", "phase=5%"])
        }
        Code::CourseGuessed => case.show(&of_run(json!({"followed": [["conditions", 2, "train.py:7"]]}))),
        Code::KernelBenchmarks => {
            let stack = vec![frame("do_bench", "/env/site-packages/triton/testing.py", 1)];
            let mut measured = passing_block();
            measured[0] = event("alloc", A + 4 * MIB, 6 * MIB).with("frames", stack);
            case.show(&story(measured))
        }
        Code::FiguresImpossible => case.show(&of_run(json!({"cards": [{"device": 0, "memory": MIB}]}))),
        Code::PhasesIgnored => {
            fs::write(case.path("ptmem.toml"), "ignore = \"*\"\n").unwrap();
            case.show(&story(passing_block()).with("external_annotations", phase()))
        }
        Code::ModulesNotRecorded => case.show(&of_run(json!({"recorder": "ptmem simulate"}))),
        Code::RunFacts => case.show(&of_run(json!({"commit": "c0ffee"}))),
        Code::RunIncomplete => case.show(&of_run(json!({"ending": {"kind": "exception", "message": "E: x"}}))),
        Code::OptimizersIdle => {
            case.show(&of_run(json!({"steps": {"first": 1, "last": 1, "asked": null, "idle_optimizers": 1}})))
        }
        Code::CountersDisagree => case.show(&of_run(json!({"counters": [counters(4 * MIB + 512)]}))),
        Code::ImportedElsewhere => case.show(&of_run(json!({"packages": [imported_elsewhere()]}))),
        Code::VersionsDiffer => case.diff(
            &of_run(json!({"versions": [["torch", "2.10.0"]]})),
            &of_run(json!({"versions": [["torch", "2.11.0"]]})),
            &[],
        ),
        Code::InputsDiffer => {
            let batch_of = |batch| train(Tensors { batch, loss: MIB, sum: MIB, sums: "add" });
            case.diff(&batch_of(4 * MIB), &batch_of(5 * MIB), &[])
        }
        Code::NotRepeatable => {
            let program = json!({"code": "c", "opened": "o", "arguments": "a", "environment": "e"});
            let facts = json!({"format": 1, "program": program});
            let run = |batch| train(Tensors { batch, loss: MIB, sum: MIB, sums: "add" }).with("ptmem", facts.clone());
            case.diff(&run(4 * MIB), &run(5 * MIB), &[])
        }
        Code::SameCode => case.diff(
            &of_run(json!({"commit": "a", "packages": [imported_elsewhere()]})),
            &of_run(json!({"commit": "b", "packages": [imported_elsewhere()]})),
            &[],
        ),
        Code::SwappedSides => {
            let head = || git(case.folder.path(), &["rev-parse", "HEAD"]).trim().to_owned();
            fs::write(case.path("a.py"), "a = 1\n").unwrap();
            commit(case.folder.path(), &["a.py"]);
            let first = head();
            git(case.folder.path(), &["commit", "--quiet", "--allow-empty", "--message", "more"]);
            let [old, new] = [first, head()].map(|commit| of_run(json!({"commit": commit})));
            assert!(!case.diff(&old, &new, &[]).contains("swapped-sides"));
            case.diff(&new, &old, &[])
        }
        Code::SameInput => case.codes(&["diff", &fixture("before.pkl"), &fixture("before.pkl")]),
        Code::WithinError => case.diff(&story([]), &bounded(), &["--max-growth", "6MiB"]),
        Code::AcceptedGrowth => {
            let accepted =
                "[[accept]]\nmetric = \"peak\"\nbytes = \"100MiB\"\nexpires = 2027-06-01\nreason = \"planned\"\n";
            fs::write(case.path("ptmem.toml"), accepted).unwrap();
            case.diff(&story([]), &story(passing_block()), &["--max-growth", "0"])
        }
        // Tests of `ptmem gate` produce them.
        Code::GateChanged | Code::OtherBefore | Code::Improved => Codes::from([code.name().to_owned()]),
        Code::UnknownDiagnostic => {
            case.write("made.pkl", &snapshot(segments(), vec![]));
            let saved = ptmem(case.folder.path(), &["profile", "made.pkl", "-o", "stored.json"]);
            assert!(saved.status.success(), "{}", text(&saved.stderr));
            let newer = fs::read_to_string(case.path("stored.json"))
                .unwrap()
                .replace("\"code\":\"state-only\"", "\"code\":\"newer\"");
            fs::write(case.path("stored.json"), signed(&newer)).unwrap();
            case.codes(&["show", "stored.json"])
        }
        Code::FilesSkipped => {
            let nights = case.series(&[4, 4, 4]);
            fs::write(nights.join("night-9.pkl"), "no pickle").unwrap();
            case.codes(&["leak", "nights"])
        }
        Code::StacksNotCompared => {
            case.series(&[4, 4, 4]);
            fs::write(case.path("stats.json"), r#"{"memory_allocated": 512}"#).unwrap();
            case.codes(&["leak", "nights", "stats.json"])
        }
        #[cfg(all(unix, feature = "simulate"))]
        Code::Bisected => {
            let mut found = Codes::new();
            collect(&crate::bisect::History::new().report("main~4..main~3"), &mut found);
            found
        }
        #[cfg(not(all(unix, feature = "simulate")))]
        Code::Bisected => Codes::from([code.name().to_owned()]),
        Code::NumbersOnly => {
            fs::write(case.path("stats.json"), r#"{"allocated_bytes.all.peak": 512}"#).unwrap();
            case.codes(&["show", "stats.json"])
        }
        Code::FirstOfSeries => {
            case.write("night.pkl", &story([]));
            fs::create_dir(case.path("nights")).unwrap();
            let saved = ptmem(case.folder.path(), &["profile", "night.pkl", "-o", "nights/night-1.json"]);
            assert!(saved.status.success(), "{}", text(&saved.stderr));
            case.codes(&["leak", "nights"])
        }
        Code::CyclesUnknown => case.codes(&["leak", &fixture("leak.pkl")]),
        Code::ReferenceCycles => {
            let mut found = Codes::new();
            collect(&crate::cycles::collected_on_the_way(case.folder.path()), &mut found);
            found
        }
        Code::SeriesSorted => {
            let [first, last] =
                [100, 300].map(|step| format!("{}/leak-series/step-{step}.pkl", fixtures::folder().display()));
            case.codes(&["leak", &last, &first])
        }
        Code::SeriesAssumed => {
            fs::create_dir(case.path("ranks")).unwrap();
            crate::series::write_ranks(&case.path("ranks"));
            case.codes(&["leak", "ranks"])
        }
        Code::GrowthTooRecent => {
            case.series(&[4, 4, 4, 4, 4, 8, 12]);
            case.codes(&["leak", "nights"])
        }
        Code::UnusedRule => {
            let accepted =
                "[[accept]]\npattern = \"nowhere*\"\nbytes = \"1MiB\"\nexpires = 2027-06-01\nreason = \"old\"\n";
            fs::write(case.path("ptmem.toml"), accepted).unwrap();
            case.diff(&story([]), &story([]), &["--max-growth", "stack=0"])
        }
        other => panic!("write an input that produces {other}"),
    }
}

#[test]
fn every_code_has_an_input_that_produces_it() {
    let missing: Vec<_> = Code::ALL
        .iter()
        .map(|&code| (code, produce(code)))
        .filter(|(code, found)| !found.contains(code.name()))
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A whole recording without gaps or bounds.
#[test]
fn a_sound_recording_produces_none() {
    let defaults = Value::dict([("PYTORCH_CUDA_ALLOC_CONF", "".into())]);
    let recording = story(passing_block()).with("allocator_settings", defaults);
    assert_eq!(Case::new().show(&recording), Codes::new());
}

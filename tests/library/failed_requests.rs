//! The stack of a request that failed for lack of memory, in every format that has stacks.

use std::path::PathBuf;

use ptmem::diff;
use ptmem::profile::{self, Profile};
use ptmem::report::{Format, RenderOptions};
use ptmem::verdict::{self, Comparison, Gate, Thresholds};
use serde_json::Value as Json;

fn load(name: &str) -> Profile {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "fixtures", name].iter().collect();
    profile::read(std::fs::File::open(path).unwrap(), name, profile::ReadOptions::default()).unwrap()
}

fn saved(profile: &Profile) -> String {
    profile::saved::text_of(profile, &[]).unwrap()
}

fn read(text: &str) -> Profile {
    profile::read(text.as_bytes(), "saved.json", profile::ReadOptions::default()).unwrap()
}

fn json(profile: &Profile) -> Json {
    let text = Format::Json.render(profile, &RenderOptions::default()).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A snapshot in which memory ran out in the forward pass.
const IN_FORWARD: &str = "mid-forward.pkl";

/// The frames of the first failed request.
fn frames(profile: &Profile) -> Vec<String> {
    let json = json(profile);
    let frames = json["devices"][0]["ooms"][0]["frames"].as_array().unwrap();
    frames.iter().map(|frame| format!("{}:{}", frame["filename"].as_str().unwrap(), frame["line"])).collect()
}

#[test]
fn json_and_saved_profiles_have_the_stack_of_a_failed_request() {
    let profile = load(IN_FORWARD);
    let ours = frames(&profile);
    assert!(ours.iter().any(|frame| frame.contains(".py:")), "{ours:?}");
    // The autograd thread has no frames in Python.
    assert!(!frames(&load("oom.pkl")).is_empty());
    let text = saved(&profile);
    assert_eq!(saved(&read(&text)), text);
    // A saved profile keeps the frames that say something, those in Python among them.
    let of_python =
        |frames: &[String]| -> Vec<String> { frames.iter().filter(|frame| frame.contains(".py:")).cloned().collect() };
    assert_eq!(of_python(&frames(&read(&text))), of_python(&ours));
    // Every failed request has a place for one.
    let device = &profile.devices[0];
    assert_eq!(device.failed_stacks.len(), device.figures.ooms.len());
}

fn gate(before: Profile, after: Profile) -> Gate {
    let diff = diff::compare(before, after, diff::DiffOptions::default());
    let judgement = verdict::judge_diff(&diff, &Thresholds::default());
    Gate::from(Comparison { name: None, member: None, diff, judgement, min_delta: 0 })
}

#[test]
fn annotations_point_at_the_request_that_failed() {
    for after in [load(IN_FORWARD), read(&saved(&load(IN_FORWARD)))] {
        let gate = gate(load("before.pkl"), after);
        let text = |format: Format| format.render(&gate, &RenderOptions::default()).unwrap();
        let sarif: Json = serde_json::from_str(&text(Format::Sarif)).unwrap();
        let result = &sarif["runs"][0]["results"][0];
        assert_eq!(result["ruleId"], "oom", "{result}");
        let place = &result["locations"][0]["physicalLocation"];
        let path = place["artifactLocation"]["uri"].as_str().unwrap().to_owned();
        let line = place["region"]["startLine"].as_u64().unwrap();
        assert!(path.ends_with(".py"), "{place}");
        assert!(!result["stacks"][0]["frames"].as_array().unwrap().is_empty());
        let commands = text(Format::Github);
        assert!(
            commands.starts_with(&format!("::error file={path},line={line},title=GPU memory%3A oom::")),
            "{commands}"
        );
        let junit = text(Format::Junit);
        assert!(junit.contains(&format!("at {path}:{line}")), "{junit}");
    }
}

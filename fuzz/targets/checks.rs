//! What holds for every profile that could be read.

#![allow(dead_code, reason = "no target needs all")]

use ptmem::profile::saved::text_of;
use ptmem::profile::{Held, Moment, Profile, ReadOptions, StackTotal, read};
use ptmem::report::{self, Format, Report};
use sha1::{Digest, Sha1};

/// The stacks of a device hold, at each moment, what the device does.
pub fn adds_up(profile: &Profile) {
    for device in &profile.devices {
        let counter = device.figures.allocated;
        if !counter.exact() {
            continue;
        }
        let sum = |held: fn(&StackTotal) -> Held| device.stacks.iter().map(|stack| held(stack).bytes).sum::<u64>();
        assert_eq!(Some(sum(|stack| stack.baseline)), counter.baseline);
        assert_eq!(Some(sum(|stack| stack.peak)), counter.peak);
        assert_eq!(Some(sum(|stack| stack.end)), counter.end);
    }
}

/// Every format renders, and what is said to be JSON is.
pub fn report(result: &dyn Report, options: &report::RenderOptions) {
    for format in Format::ALL.iter().copied() {
        let text = format.render(result, options).expect("every format holds everything");
        if matches!(format, Format::Json | Format::Sarif | Format::Gitlab) {
            serde_json::from_str::<serde_json::Value>(&text).expect("what is said to be JSON is JSON");
        }
    }
}

/// A saved profile can be read, and saves as the same text.
pub fn is_saved_whole(profile: &Profile) {
    let text = text_of(profile, &profile.raises).unwrap();
    // No saved profile knows of times.
    let at = Moment::Peak;
    let options = ReadOptions { every: None, at, ..profile.options.clone() };
    let again = read(text.as_bytes(), "saved", options).expect("what is saved can be read");
    assert_eq!(text, text_of(&again, &again.raises).unwrap());
}

/// A saved profile with the digest of what it says; as it is where it has none.
pub fn signed(text: &str) -> String {
    const DIGEST: &str = "  \"sha1\": \"";
    let Some(at) = text.rfind(DIGEST) else { return text.to_owned() };
    let mut hash = Sha1::new();
    text[..at].split('\r').for_each(|part| hash.update(part));
    let digest: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}{DIGEST}{digest}\"\n}}\n", &text[..at])
}

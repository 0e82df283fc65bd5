//! Numbers without a snapshot: any text, and JSON by its grammar, of which every stated figure is taken or the whole is refused.

#![no_main]

#[path = "../../tests/support/made.rs"]
mod made;

use libfuzzer_sys::fuzz_target;
use made::Choices;
use ptmem::profile::numbers::{MOST_CASES, cases};
use ptmem::profile::{ReadOptions, read};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(cases) = cases(bytes) {
        assert!(cases.names().count() <= MOST_CASES);
    }
    let (text, facts) = made::numbers(&mut Choices(bytes));
    for fact in &facts {
        let case = Some(fact.case.clone()).filter(|case| !case.is_empty());
        let Ok(profile) = read(text.as_bytes(), "x.json", ReadOptions { case, ..ReadOptions::default() }) else {
            continue;
        };
        let device = profile.devices.iter().find(|device| device.device == fact.device.into());
        let figures = &device.expect("every stated device").figures;
        let [allocated, reserved] = [figures.allocated, figures.reserved];
        let known = [allocated.peak, allocated.end, reserved.peak, reserved.end][fact.figure];
        assert_eq!(known, Some(fact.bytes), "{fact:?} in {text}");
    }
});

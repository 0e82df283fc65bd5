//! Numbers without a snapshot: any text, and JSON by its grammar, of which every stated figure is taken or the whole is refused.

#![no_main]

#[path = "../../tests/support/made.rs"]
mod made;

use libfuzzer_sys::fuzz_target;
use made::Choices;
use ptmem::profile::numbers::{MOST_CASES, MOST_DEVICES, cases};
use ptmem::profile::{ReadOptions, read};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(cases) = cases(bytes) {
        assert!(cases.names().count() <= MOST_CASES);
    }
    let mut choices = Choices(bytes);
    // Rarely: each takes a second.
    if [choices.byte(), choices.byte()] == [255, 254] {
        are_bounded(&mut choices);
        return;
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

/// No more cases and devices are read than there may be, and no fewer.
fn are_bounded(choices: &mut Choices<'_>) {
    let [small, large] = [choices.byte(), choices.byte()].map(usize::from);
    let near = |most: usize| (most + small).saturating_sub(128) >> (large % 4);
    let (of_cases, of_devices) = if large < 128 { (near(MOST_CASES), 1) } else { (2, near(MOST_DEVICES)) };
    let devices: Vec<String> = (0..of_devices).map(|device| format!("\"cuda:{device}\": {{\"peak\": 1}}")).collect();
    let devices = devices.join(", ");
    let json: Vec<String> = (0..of_cases).map(|case| format!("\"{case}\": {{{devices}}}")).collect();
    let rows = (0..of_cases).flat_map(|case| (0..of_devices).map(move |device| format!("{case},{device},1\n")));
    let are_few = of_cases <= MOST_CASES && of_devices <= MOST_DEVICES;
    for text in [format!("{{{}}}", json.join(", ")), format!("case,device,peak\n{}", rows.collect::<String>())] {
        match cases(text.as_bytes()) {
            Ok(cases) => assert!(are_few && cases.names().count() == of_cases),
            Err(error) => assert!(!are_few, "{error}"),
        }
    }
}

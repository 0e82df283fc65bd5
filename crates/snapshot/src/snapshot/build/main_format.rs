//! Tests of what releases after 2.12 write in another form.

use ptmem_base::device::DeviceId;
use serde_json::{Value as Json, json};

use crate::snapshot::{self, Snapshot};

/// A snapshot of two devices with 3 and 1 events, of which the first carries `metadata`.
fn read(settings: &Json, metadata: &Json) -> Snapshot {
    let event = |at: u64| json!({"action": "alloc", "addr": at, "size": 512, "user_metadata": metadata, "stream": 0});
    let traces = json!([[event(1), event(2), event(3)], [event(1)]]);
    let file = json!({"segments": [], "device_traces": traces, "allocator_settings": settings});
    snapshot::read(&*serde_pickle::to_vec(&file, serde_pickle::SerOptions::new()).unwrap()).unwrap()
}

#[test]
fn the_settings_say_whether_a_ring_ran_over_and_how_long_it_is() {
    let overflowed = |settings: &Json| {
        let read = read(settings, &json!("a"));
        assert!(read.settings.all.keys().all(|key| !key.starts_with("trace_alloc")), "not settings of the allocator");
        [0, 1].map(|device| read.devices[&DeviceId::Ordinal(device)].overflowed)
    };
    let flag = |over: bool| json!({"trace_alloc_overflowed": over, "trace_alloc_max_entries": 3});
    assert_eq!(overflowed(&flag(true)), [Some(true), None]);
    assert_eq!(overflowed(&flag(false)), [Some(false), Some(false)]);
    assert_eq!(overflowed(&json!({"trace_alloc_overflowed": true})), [None, None], "it says of no device");
    assert_eq!(overflowed(&json!({"trace_alloc_max_entries": 3})), [None, None]);
}

#[test]
fn metadata_that_is_a_dictionary_counts_as_its_json() {
    let metadata = |value: &Json| {
        let read = read(&json!({}), value);
        let tags = read.tables.tags(read.events[0].tags);
        tags.user_metadata.map(|text| read.tables.string(text).to_owned())
    };
    assert_eq!(metadata(&json!({"step": 1, "part": "loss"})).as_deref(), Some(r#"{"part":"loss","step":1}"#));
    assert_eq!(metadata(&json!({"rate": 0.5, "shift": -2})).as_deref(), Some(r#"{"rate":0.5,"shift":-2}"#));
    assert_eq!(metadata(&json!({})), None);
    assert_eq!(metadata(&json!("step 1")).as_deref(), Some("step 1"));
    let long: Json = (0..200).map(|key| (key.to_string(), json!(1))).collect::<serde_json::Map<_, _>>().into();
    assert_eq!(metadata(&long), None, "no more than a file may have in every event");
}

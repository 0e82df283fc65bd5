//! The backend interface: descriptors with attributes, of which cuDNN's frontend makes graphs, engines and plans.
//!
//! A descriptor keeps the attributes that are set and gives them back. Heuristics find one engine, without notes and
//! knobs, and every plan has the workspace of the settings.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{BAD_PARAMETER, SUCCESS};
use crate::ffi::{Handle, In, Out};
use crate::handles::Registry;
use crate::kernels;
use crate::ledger::{self, CountedFact};
use crate::little_endian;
use crate::settings::settings;

/// Attributes that have an answer of their own, by cuDNN's numbers.
const HEURISTIC_RESULTS: i32 = 202;
const CONFIGURED_ENGINE: i32 = 300;
const CONFIGURATION_WORKSPACE: i32 = 303;
const PLAN_CONFIGURATION: i32 = 401;
const PLAN_WORKSPACE: i32 = 402;
const GRAPH_ENGINES: i32 = 802;

/// Types of attributes, by cuDNN's numbers.
const NUMERICAL_NOTE: i32 = 11;
const LAYOUT_TYPE: i32 = 12;
const DESCRIPTOR: i32 = 15;
const BEHAVIOR_NOTE: i32 = 19;

const EXECUTION_PLAN: i32 = 4;

struct Attribute {
    count: i64,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct Descriptor {
    kind: i32,
    attributes: BTreeMap<i32, Attribute>,
}

static DESCRIPTORS: Registry<Descriptor> = Registry::new();

/// Bytes of one value of a type of attributes.
fn width(kind: i32) -> usize {
    match kind {
        2 | 24 => 1,             // booleans, characters
        0 | 3 | 5 | 6 | 15 => 8, // handles, long integers, doubles, pointers, descriptors
        26 => 16,                // fractions
        _ => 4,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendCreateDescriptor(kind: i32, descriptor: Out<Handle>) -> i32 {
    descriptor.set(DESCRIPTORS.insert(Descriptor { kind, ..Descriptor::default() }));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendDestroyDescriptor(descriptor: Handle) -> i32 {
    DESCRIPTORS.remove(descriptor);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendFinalize(descriptor: Handle) -> i32 {
    if DESCRIPTORS.with(descriptor, |found| found.kind) == Some(EXECUTION_PLAN) {
        ledger::count(CountedFact::CudnnPlans);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendSetAttribute(
    descriptor: Handle,
    name: i32,
    kind: i32,
    count: i64,
    values: In<u8>,
) -> i32 {
    let size = usize::try_from(count).unwrap_or_default() * width(kind);
    let bytes = (0..size).filter_map(|index| values.at(index)).collect();
    let set = DESCRIPTORS.with(descriptor, |found| found.attributes.insert(name, Attribute { count, bytes }));
    if set.is_some() { SUCCESS } else { BAD_PARAMETER }
}

/// The last argument describes what the plan works on: addresses, among other attributes.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendExecute(_handle: Handle, _plan: Handle, pack: Handle) -> i32 {
    let words = DESCRIPTORS.with(pack, |found| {
        let values = found.attributes.values().flat_map(|attribute| attribute.bytes.chunks_exact(8));
        values.filter_map(|bytes| little_endian::number_at::<8>(bytes, 0)).collect::<Vec<u64>>()
    });
    words.unwrap_or_default().into_iter().for_each(kernels::wrote);
    SUCCESS
}

/// Descriptors among the values are objects that the caller has made, to be filled in: there is nothing to fill in.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnBackendGetAttribute(
    descriptor: Handle,
    name: i32,
    kind: i32,
    wanted: i64,
    count: Out<i64>,
    values: Out<u8>,
) -> i32 {
    match (name, kind) {
        (HEURISTIC_RESULTS | CONFIGURED_ENGINE | PLAN_CONFIGURATION, _) => count.set(1),
        (CONFIGURATION_WORKSPACE | PLAN_WORKSPACE, _) => answer(settings().cudnn_workspace, wanted, count, values),
        (GRAPH_ENGINES, _) => answer(1, wanted, count, values),
        (_, NUMERICAL_NOTE | LAYOUT_TYPE | BEHAVIOR_NOTE) => count.set(0),
        _ => stored(descriptor, name, kind, wanted, count, values),
    }
    SUCCESS
}

/// One long integer.
fn answer(value: u64, wanted: i64, count: Out<i64>, values: Out<u8>) {
    count.set(1);
    if wanted > 0 {
        values.set_bytes(&value.to_ne_bytes());
    }
}

/// The values that were set, or one zero.
fn stored(descriptor: Handle, name: i32, kind: i32, wanted: i64, count: Out<i64>, values: Out<u8>) {
    let room = usize::try_from(wanted).unwrap_or_default() * width(kind);
    let found = DESCRIPTORS.with(descriptor, |found| {
        let attribute = found.attributes.get(&name)?;
        count.set(attribute.count);
        values.set_bytes(&attribute.bytes[..room.min(attribute.bytes.len())]);
        Some(())
    });
    if found.flatten().is_some() {
        return;
    }
    let single = i64::from(kind != DESCRIPTOR);
    count.set(single);
    if wanted > 0 && single == 1 {
        values.clear(width(kind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::values::{self, ValueTrust};
    use crate::device::{addresses, blocks};

    #[test]
    fn what_a_plan_works_on_may_have_changed() {
        const VARIANT_PACK: i32 = 6;
        const DATA: i32 = 1001;
        const POINTER: i32 = 6;
        let data = 0x1000_6200_0000_u64;
        assert!(addresses::is_device(data));
        blocks::report_memory_usage(data as *const _, 512, 0, 0, 0);
        values::repeat(data, &[0], 8, ValueTrust::Known);
        let mut place = [0; 8];
        assert_eq!(cudnnBackendCreateDescriptor(VARIANT_PACK, Out::to(&mut place).cast()), SUCCESS);
        let pack = Handle::from_ne_bytes(place);
        cudnnBackendSetAttribute(pack, DATA, POINTER, 1, In::at_address((&raw const data) as u64));
        assert_eq!(cudnnBackendExecute(0, 0, pack), SUCCESS);
        assert_eq!(values::trust_if_set(data, 8), Some(ValueTrust::Doubtful));
    }
}

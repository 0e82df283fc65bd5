//! Descriptors of tensors and filters, which PyTorch reads back for recurrent networks.

use alloc::vec::Vec;

use super::SUCCESS;
use crate::calls::calls;
use crate::ffi::{Handle, In, Out};
use crate::handles::Registry;

/// Type, format and extents.
#[derive(Clone, Default)]
pub(super) struct Extents {
    pub(super) kind: i32,
    format: i32,
    pub(super) sizes: Vec<i32>,
    strides: Vec<i32>,
}

static EXTENTS: Registry<Extents> = Registry::new();

/// Describes a dense block of elements.
pub(super) fn describe_dense(descriptor: Handle, kind: i32, sizes: &[i32]) {
    let strides = (0..sizes.len()).map(|index| sizes[index + 1..].iter().product()).collect();
    let described = Extents { kind, format: 0, sizes: sizes.to_vec(), strides };
    EXTENTS.with(descriptor, |extents| *extents = described);
}

fn read(numbers: In<i32>, count: i32) -> Vec<i32> {
    (0..usize::try_from(count).unwrap_or_default()).filter_map(|index| numbers.at(index)).collect()
}

fn write(numbers: Out<i32>, room: i32, values: &[i32]) {
    let room = usize::try_from(room).unwrap_or_default();
    for (index, &value) in values.iter().take(room).enumerate() {
        numbers.at(index).set(value);
    }
}

fn create(descriptor: Out<Handle>) -> i32 {
    descriptor.set(EXTENTS.insert(Extents::default()));
    SUCCESS
}

fn destroy(descriptor: Handle) -> i32 {
    EXTENTS.remove(descriptor);
    SUCCESS
}

calls! { i32;
    cudnnCreateTensorDescriptor(descriptor: Out<Handle>) = create(descriptor);
    cudnnDestroyTensorDescriptor(descriptor: Handle) = destroy(descriptor);
    cudnnCreateFilterDescriptor(descriptor: Out<Handle>) = create(descriptor);
    cudnnDestroyFilterDescriptor(descriptor: Handle) = destroy(descriptor);
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetTensorNdDescriptor(
    descriptor: Handle,
    kind: i32,
    count: i32,
    sizes: In<i32>,
    strides: In<i32>,
) -> i32 {
    let described = Extents { kind, format: 0, sizes: read(sizes, count), strides: read(strides, count) };
    EXTENTS.with(descriptor, |extents| *extents = described);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetTensorNdDescriptor(
    descriptor: Handle,
    room: i32,
    kind: Out<i32>,
    count: Out<i32>,
    sizes: Out<i32>,
    strides: Out<i32>,
) -> i32 {
    let extents = EXTENTS.get(descriptor).unwrap_or_default();
    kind.set(extents.kind);
    count.set(extents.sizes.len() as i32);
    write(sizes, room, &extents.sizes);
    write(strides, room, &extents.strides);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetFilterNdDescriptor(
    descriptor: Handle,
    kind: i32,
    format: i32,
    count: i32,
    sizes: In<i32>,
) -> i32 {
    let described = Extents { kind, format, sizes: read(sizes, count), strides: Vec::new() };
    EXTENTS.with(descriptor, |extents| *extents = described);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetFilterNdDescriptor(
    descriptor: Handle,
    room: i32,
    kind: Out<i32>,
    format: Out<i32>,
    count: Out<i32>,
    sizes: Out<i32>,
) -> i32 {
    let extents = EXTENTS.get(descriptor).unwrap_or_default();
    kind.set(extents.kind);
    format.set(extents.format);
    count.set(extents.sizes.len() as i32);
    write(sizes, room, &extents.sizes);
    SUCCESS
}

/// Type and extents of a descriptor.
pub(super) fn extents(descriptor: Handle) -> Extents {
    EXTENTS.get(descriptor).unwrap_or_default()
}

//! CUPTI: a profiler that sees nothing.

use crate::ffi::{Opaque, Out};

const SUCCESS: i32 = 0;
/// No further record in a buffer.
const MAX_LIMIT_REACHED: i32 = 12;
const API_VERSION: u32 = 18;

#[unsafe(no_mangle)]
pub extern "C" fn cuptiGetResultString(_result: i32, text: Out<Opaque>) -> i32 {
    text.set(c"an answer of the simulated CUPTI".as_ptr().cast());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiGetVersion(version: Out<u32>) -> i32 {
    version.set(API_VERSION);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiGetDeviceId(_context: u64, device: Out<u32>) -> i32 {
    device.set(crate::device::current() as u32);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiGetCallbackName(_domain: i32, _callback: u32, name: Out<Opaque>) -> i32 {
    name.set(c"simulated".as_ptr().cast());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityGetNumDroppedRecords(_context: u64, _stream: u32, count: Out<usize>) -> i32 {
    count.set(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityGetNextRecord(_buffer: Opaque, _size: usize, record: Out<Opaque>) -> i32 {
    record.set(core::ptr::null());
    MAX_LIMIT_REACHED
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiActivityPopExternalCorrelationId(_kind: i32, last: Out<u64>) -> i32 {
    last.set(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cuptiSubscribe(subscriber: Out<u64>, _callback: Opaque, _data: Opaque) -> i32 {
    subscriber.set(crate::handles::new_handle());
    SUCCESS
}

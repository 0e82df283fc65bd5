//! NVML: PyTorch asks it about other processes when memory runs out, about links between devices, and how many devices
//! there are.

use alloc::string::String;
use core::ffi::CStr;

use crate::calls::calls;
use crate::card;
use crate::device::{self, memory};
use crate::ffi::{Handle, Opaque, Out, StaticText, Text};
use crate::settings::settings;
use crate::version;

const SUCCESS: i32 = 0;
const INVALID_ARGUMENT: i32 = 2;
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 6;
const FIRST_DEVICE: Handle = 0x100;

fn device_of(handle: Handle) -> usize {
    handle.wrapping_sub(FIRST_DEVICE) as usize % device::MOST_DEVICES
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(_code: i32) -> StaticText {
    c"an answer of the simulated NVML".into()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion_v2(number: Out<i32>) -> i32 {
    number.set(version::cuda());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: Out<u32>) -> i32 {
    count.set(settings().gpus as u32);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, handle: Out<Handle>) -> i32 {
    if index as usize >= settings().gpus {
        return INVALID_ARGUMENT;
    }
    handle.set(FIRST_DEVICE + Handle::from(index));
    SUCCESS
}

/// The bus is the number of the device plus one: `0000:01:00.0`.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(text: Text, handle: Out<Handle>) -> i32 {
    let bus = text.get().and_then(|text| text.to_str().ok()).and_then(|text| text.split(':').nth(1));
    let device = bus.and_then(|bus| u32::from_str_radix(bus, 16).ok()).and_then(|bus| bus.checked_sub(1));
    device.map_or(INVALID_ARGUMENT, |device| nvmlDeviceGetHandleByIndex_v2(device, handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByUUID(uuid: Text, handle: Out<Handle>) -> i32 {
    let uuid = uuid.get().map(CStr::to_bytes);
    let device = (0..settings().gpus).find(|&device| uuid == Some(uuid_of(device).as_bytes()));
    let index = device.and_then(|device| u32::try_from(device).ok());
    index.map_or(NOT_FOUND, |index| nvmlDeviceGetHandleByIndex_v2(index, handle))
}

/// The identity of a device as text.
fn uuid_of(device: usize) -> String {
    let mut written = String::from("GPU-");
    for (index, byte) in card::uuid(device).iter().enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        written.push_str(&alloc::format!("{dash}{byte:02x}"));
    }
    written
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(handle: Handle, text: Out<u8>, room: u32) -> i32 {
    text.set_text(&uuid_of(device_of(handle)), room as usize);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(_handle: Handle, text: Out<u8>, room: u32) -> i32 {
    text.set_text(settings().name, room as usize);
    SUCCESS
}

/// Total, free and used memory of a device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo(handle: Handle, sizes: Out<u64>) -> i32 {
    let sizes_of_device = memory::sizes(device_of(handle));
    let used = sizes_of_device.total - sizes_of_device.free;
    for (index, size) in [sizes_of_device.total, sizes_of_device.free, used].into_iter().enumerate() {
        sizes.at(index).set(size);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses(_handle: Handle, count: Out<u32>, _processes: Opaque) -> i32 {
    count.set(0);
    SUCCESS
}

/// The offset of `state` in `nvmlGpuFabricInfoV_t`, after version, cluster, status and clique.
const FABRIC_STATE: usize = 28;

/// `NVML_GPU_FABRIC_STATE_NOT_SUPPORTED`.
const NO_FABRIC: u8 = 0;

/// No card is connected to a fabric of several machines. That is an answer: PyTorch 2.13 takes an error for one of its own.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuFabricInfoV(_handle: Handle, information: Out<u8>) -> i32 {
    information.at(FABRIC_STATE).set(NO_FABRIC);
    SUCCESS
}

calls! { i32;
    nvmlDeviceGetNvLinkRemoteDeviceType(_handle: Handle, _link: u32, _kind: Opaque) = NOT_SUPPORTED;
    nvmlDeviceGetNvLinkRemotePciInfo_v2(_handle: Handle, _link: u32, _information: Opaque) = NOT_SUPPORTED;
    nvmlDeviceGetP2PStatus(_handle: Handle, _peer: Handle, _index: i32, _status: Out<i32>) = NOT_SUPPORTED;
}

// Monitors ask for these: a device that does nothing uses no power, and its clock is that of the card.

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetCudaDriverVersion(number: Out<i32>) -> i32 {
    nvmlSystemGetCudaDriverVersion_v2(number)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(text: Out<u8>, room: u32) -> i32 {
    text.set_text("580.00", room as usize);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetIndex(handle: Handle, index: Out<u32>) -> i32 {
    index.set(device_of(handle) as u32);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMinorNumber(handle: Handle, number: Out<u32>) -> i32 {
    nvmlDeviceGetIndex(handle, number)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCudaComputeCapability(_handle: Handle, major: Out<i32>, minor: Out<i32>) -> i32 {
    major.set(settings().capability / 10);
    minor.set(settings().capability % 10);
    SUCCESS
}

/// Share of the time in which kernels ran, and memory was read or written.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(_handle: Handle, rates: Out<[u32; 2]>) -> i32 {
    rates.set([0, 0]);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperature(_handle: Handle, _sensor: i32, degrees: Out<u32>) -> i32 {
    degrees.set(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPowerUsage(_handle: Handle, milliwatts: Out<u32>) -> i32 {
    milliwatts.set(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEnforcedPowerLimit(handle: Handle, milliwatts: Out<u32>) -> i32 {
    nvmlDeviceGetPowerUsage(handle, milliwatts)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetClockInfo(_handle: Handle, _kind: i32, megahertz: Out<u32>) -> i32 {
    megahertz.set(settings().clock_khz.unsigned_abs() / 1000);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(handle: Handle, count: Out<u32>, processes: Opaque) -> i32 {
    nvmlDeviceGetComputeRunningProcesses(handle, count, processes)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(handle: Handle, count: Out<u32>, processes: Opaque) -> i32 {
    nvmlDeviceGetComputeRunningProcesses(handle, count, processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_card_is_connected_to_a_fabric() {
        let mut information = [0xff; 40];
        assert_eq!(nvmlDeviceGetGpuFabricInfoV(FIRST_DEVICE, Out::to(&mut information)), SUCCESS);
        assert_eq!(information[FABRIC_STATE], NO_FABRIC);
    }

    #[test]
    fn a_device_is_found_by_its_identity() {
        assert_eq!(uuid_of(0), "GPU-70746d65-6d20-7369-6d75-6c6174650000");
        assert_ne!(uuid_of(0), uuid_of(3));
    }
}

//! Streams, events and captures: the order of work, without executing it.

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::cuda_error::CudaError;
use crate::device::{self, MOST_DEVICES};
use crate::ffi::Handle;
use crate::handles::{Registry, new_handle};
use crate::settings::{Events, settings};
use crate::sys::lock::Mutex;

pub(crate) const HIGHEST_PRIORITY: i32 = -5;
/// Queries that a late event answers with "not ready".
const LATE_QUERIES: u32 = 3;
/// Handles below are CUDA's own names for the default streams of the current device.
const RESERVED_HANDLES: Handle = 16;

#[derive(Clone, Copy, Default)]
struct Stream {
    device: usize,
    priority: i32,
    flags: u32,
    capture: Option<u64>,
    /// Work up to here is done.
    done: u64,
}

#[derive(Clone, Copy, Default)]
struct CardEvent {
    /// None until it is recorded.
    stream: Option<Handle>,
    /// Place in the order of all work.
    position: u64,
    capture: Option<u64>,
    /// Queries to answer with "not ready".
    late: u32,
}

/// A capture that goes on, or the graph that it became.
#[derive(Clone, Copy)]
pub(crate) struct Capture {
    pub(crate) id: u64,
    pub(crate) graph: Handle,
}

struct StreamState {
    streams: BTreeMap<Handle, Stream>,
    /// Number of the last piece of work.
    position: u64,
    last_capture: u64,
    /// Graphs of the captures that go on.
    captures: BTreeMap<u64, Handle>,
    device_done: [u64; MOST_DEVICES],
}

static STATE: Mutex<StreamState> = Mutex::new(StreamState {
    streams: BTreeMap::new(),
    position: 0,
    last_capture: 0,
    captures: BTreeMap::new(),
    device_done: [0; MOST_DEVICES],
});
static EVENTS: Registry<CardEvent> = Registry::new();
/// Work that each graph holds.
static GRAPHS: Registry<usize> = Registry::new();
/// Captures that go on, so that work outside of them costs nothing.
static CAPTURING: AtomicUsize = AtomicUsize::new(0);

impl StreamState {
    /// The stream with a handle. Default streams come to be when they are first used.
    fn stream(&mut self, handle: Handle) -> Result<&mut Stream, CudaError> {
        let key = key(handle);
        if handle < RESERVED_HANDLES {
            let device = device::current();
            return Ok(self.streams.entry(key).or_insert(Stream { device, ..Stream::default() }));
        }
        self.streams.get_mut(&key).ok_or(CudaError::InvalidHandle)
    }
}

/// Key of a stream in the table: default streams have one for each device.
fn key(handle: Handle) -> Handle {
    if handle < RESERVED_HANDLES { device::current() as Handle } else { handle }
}

/// Makes a stream on the current device.
pub(crate) fn create(flags: u32, priority: i32) -> Handle {
    let handle = new_handle();
    let stream =
        Stream { device: device::current(), priority: priority.clamp(HIGHEST_PRIORITY, 0), flags, ..Stream::default() };
    STATE.lock().streams.insert(handle, stream);
    handle
}

/// Forgets a stream.
pub(crate) fn destroy(handle: Handle) -> Result<(), CudaError> {
    STATE.lock().streams.remove(&handle).map(|_| ()).ok_or(CudaError::InvalidHandle)
}

/// Priority, flags and device of a stream.
pub(crate) fn describe(handle: Handle) -> Result<(i32, u32, usize), CudaError> {
    STATE.lock().stream(handle).map(|stream| (stream.priority, stream.flags, stream.device))
}

/// Waits for the work of a stream, which no capture allows.
pub(crate) fn synchronize(handle: Handle) -> Result<(), CudaError> {
    let mut state = STATE.lock();
    let position = state.position;
    let stream = state.stream(handle)?;
    if stream.capture.is_some() {
        return Err(CudaError::CaptureUnsupported);
    }
    stream.done = position;
    Ok(())
}

/// Waits for all work of a device.
pub(crate) fn synchronize_device(device: usize) -> Result<(), CudaError> {
    let mut state = STATE.lock();
    if state.streams.values().any(|stream| stream.device == device && stream.capture.is_some()) {
        return Err(CudaError::CaptureUnsupported);
    }
    state.device_done[device] = state.position;
    Ok(())
}

/// Begins a capture on a stream: into a new graph, or into one that exists.
pub(crate) fn begin_capture(handle: Handle, graph: Option<Handle>) -> Result<(), CudaError> {
    let mut state = STATE.lock();
    let id = state.last_capture + 1;
    let stream = state.stream(handle)?;
    if stream.capture.is_some() {
        return Err(CudaError::CaptureUnsupported);
    }
    stream.capture = Some(id);
    state.last_capture = id;
    state.captures.insert(id, graph.unwrap_or_else(|| GRAPHS.insert(0)));
    CAPTURING.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Ends the capture of a stream; its graph.
pub(crate) fn end_capture(handle: Handle) -> Result<Handle, CudaError> {
    let mut state = STATE.lock();
    let id = state.stream(handle)?.capture.ok_or(CudaError::InvalidValue)?;
    for stream in state.streams.values_mut().filter(|stream| stream.capture == Some(id)) {
        stream.capture = None;
    }
    CAPTURING.fetch_sub(1, Ordering::Relaxed);
    state.captures.remove(&id).ok_or(CudaError::InvalidValue)
}

/// True while the work of any stream is captured.
pub(crate) fn is_any_captured() -> bool {
    CAPTURING.load(Ordering::Relaxed) > 0
}

/// The capture that a stream takes part in.
pub(crate) fn capture(handle: Handle) -> Result<Option<Capture>, CudaError> {
    if !is_any_captured() {
        return Ok(None);
    }
    let mut state = STATE.lock();
    let Some(id) = state.stream(handle)?.capture else { return Ok(None) };
    let graph = state.captures.get(&id).copied().unwrap_or_default();
    Ok(Some(Capture { id, graph }))
}

/// Notes a piece of work on a stream: it counts for the graph that captures it.
pub(crate) fn note_work(handle: Handle) {
    if let Ok(Some(capture)) = capture(handle) {
        add_work(capture.graph);
    }
}

/// A graph without work.
pub(crate) fn new_graph() -> Handle {
    GRAPHS.insert(0)
}

/// Adds a piece of work to a graph.
pub(crate) fn add_work(graph: Handle) {
    GRAPHS.with(graph, |work| *work += 1);
}

/// Pieces of work in a graph.
pub(crate) fn work_in(graph: Handle) -> usize {
    GRAPHS.get(graph).unwrap_or_default()
}

/// Forgets a graph.
pub(crate) fn destroy_graph(graph: Handle) {
    GRAPHS.remove(graph);
}

/// Makes an event.
pub(crate) fn create_event() -> Handle {
    EVENTS.insert(CardEvent::default())
}

/// Forgets an event.
pub(crate) fn destroy_event(event: Handle) -> Result<(), CudaError> {
    EVENTS.remove(event).map(|_| ()).ok_or(CudaError::InvalidHandle)
}

/// Records an event on a stream.
pub(crate) fn record(event: Handle, handle: Handle) -> Result<(), CudaError> {
    let mut state = STATE.lock();
    let capture = state.stream(handle)?.capture;
    state.position += 1;
    let late = if settings().events == Events::Late { LATE_QUERIES } else { 0 };
    let recorded = CardEvent { stream: Some(key(handle)), position: state.position, capture, late };
    EVENTS.with(event, |event| *event = recorded).ok_or(CudaError::InvalidHandle)
}

/// Asks whether an event is complete.
pub(crate) fn query(handle: Handle) -> Result<(), CudaError> {
    let event = EVENTS.get(handle).ok_or(CudaError::InvalidHandle)?;
    let Some(stream) = event.stream else { return Ok(()) };
    if event.late == 0 || is_done(stream, event.position) {
        return Ok(());
    }
    EVENTS.with(handle, |event| event.late -= 1);
    Err(CudaError::NotReady)
}

fn is_done(stream: Handle, position: u64) -> bool {
    let state = STATE.lock();
    let Some(stream) = state.streams.get(&stream) else { return true };
    position <= stream.done.max(state.device_done[stream.device])
}

/// Waits for an event.
pub(crate) fn wait(handle: Handle) -> Result<(), CudaError> {
    EVENTS.with(handle, |event| event.late = 0).ok_or(CudaError::InvalidHandle)
}

/// Lets a stream wait for an event: it joins the capture that the event was recorded in.
pub(crate) fn wait_on_stream(handle: Handle, event: Handle) -> Result<(), CudaError> {
    let event = EVENTS.get(event).ok_or(CudaError::InvalidHandle)?;
    if is_any_captured() && event.capture.is_some() {
        let mut state = STATE.lock();
        let goes_on = event.capture.is_some_and(|id| state.captures.contains_key(&id));
        let stream = state.stream(handle)?;
        if goes_on && stream.capture.is_none() {
            stream.capture = event.capture;
        }
    }
    Ok(())
}

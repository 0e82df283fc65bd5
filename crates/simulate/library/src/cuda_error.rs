//! Error codes of the runtime and the driver: they are the same numbers.

use core::ffi::CStr;

/// An error that this library reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum CudaError {
    Success = 0,
    InvalidValue = 1,
    OutOfMemory = 2,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidContext = 201,
    AlreadyMapped = 208,
    InvalidHandle = 400,
    NotFound = 500,
    NotReady = 600,
    PeerAccessAlreadyEnabled = 704,
    NotSupported = 801,
    CaptureUnsupported = 900,
    CaptureInvalidated = 901,
}

impl CudaError {
    const ALL: [Self; 14] = [
        Self::Success,
        Self::InvalidValue,
        Self::OutOfMemory,
        Self::NoDevice,
        Self::InvalidDevice,
        Self::InvalidContext,
        Self::AlreadyMapped,
        Self::InvalidHandle,
        Self::NotFound,
        Self::NotReady,
        Self::PeerAccessAlreadyEnabled,
        Self::NotSupported,
        Self::CaptureUnsupported,
        Self::CaptureInvalidated,
    ];

    /// Success, once something is done.
    pub(crate) fn after<T>(_done: T) -> Self {
        Self::Success
    }

    /// The error with a number. None for codes that this library never returns.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|error| *error as i32 == code)
    }

    /// Name in the runtime.
    pub(crate) fn runtime_name(self) -> &'static CStr {
        match self {
            Self::Success => c"cudaSuccess",
            Self::InvalidValue => c"cudaErrorInvalidValue",
            Self::OutOfMemory => c"cudaErrorMemoryAllocation",
            Self::NoDevice => c"cudaErrorNoDevice",
            Self::InvalidDevice => c"cudaErrorInvalidDevice",
            Self::InvalidContext => c"cudaErrorDeviceUninitialized",
            Self::AlreadyMapped => c"cudaErrorAlreadyMapped",
            Self::InvalidHandle => c"cudaErrorInvalidResourceHandle",
            Self::NotFound => c"cudaErrorSymbolNotFound",
            Self::NotReady => c"cudaErrorNotReady",
            Self::PeerAccessAlreadyEnabled => c"cudaErrorPeerAccessAlreadyEnabled",
            Self::NotSupported => c"cudaErrorNotSupported",
            Self::CaptureUnsupported => c"cudaErrorStreamCaptureUnsupported",
            Self::CaptureInvalidated => c"cudaErrorStreamCaptureInvalidated",
        }
    }

    /// Name in the driver.
    pub(crate) fn driver_name(self) -> &'static CStr {
        match self {
            Self::Success => c"CUDA_SUCCESS",
            Self::InvalidValue => c"CUDA_ERROR_INVALID_VALUE",
            Self::OutOfMemory => c"CUDA_ERROR_OUT_OF_MEMORY",
            Self::NoDevice => c"CUDA_ERROR_NO_DEVICE",
            Self::InvalidDevice => c"CUDA_ERROR_INVALID_DEVICE",
            Self::InvalidContext => c"CUDA_ERROR_INVALID_CONTEXT",
            Self::AlreadyMapped => c"CUDA_ERROR_ALREADY_MAPPED",
            Self::InvalidHandle => c"CUDA_ERROR_INVALID_HANDLE",
            Self::NotFound => c"CUDA_ERROR_NOT_FOUND",
            Self::NotReady => c"CUDA_ERROR_NOT_READY",
            Self::PeerAccessAlreadyEnabled => c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
            Self::NotSupported => c"CUDA_ERROR_NOT_SUPPORTED",
            Self::CaptureUnsupported => c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
            Self::CaptureInvalidated => c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        }
    }

    /// Description, in CUDA's words where PyTorch shows them.
    pub(crate) fn description(self) -> &'static CStr {
        match self {
            Self::Success => c"no error",
            Self::InvalidValue => c"invalid argument",
            Self::OutOfMemory => c"out of memory",
            Self::NoDevice => c"no CUDA-capable device is detected",
            Self::InvalidDevice => c"invalid device ordinal",
            Self::InvalidContext => c"invalid device context",
            Self::AlreadyMapped => c"resource already mapped",
            Self::InvalidHandle => c"invalid resource handle",
            Self::NotFound => c"named symbol not found",
            Self::NotReady => c"device not ready",
            Self::PeerAccessAlreadyEnabled => c"peer access is already enabled",
            Self::NotSupported => c"operation not supported by a simulated GPU (ptmem simulate)",
            Self::CaptureUnsupported => c"operation not permitted when stream is capturing",
            Self::CaptureInvalidated => c"operation failed due to a previous error during capture",
        }
    }
}

impl From<Result<(), CudaError>> for CudaError {
    fn from(result: Result<(), CudaError>) -> Self {
        result.err().unwrap_or(Self::Success)
    }
}

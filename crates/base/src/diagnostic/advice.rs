//! Advice that depends on how settings are given.

/// Something that the caller can do about a message: which setting to change, as data. How a setting is given (an
/// option, an argument of a function) is for the caller to say, who adds it to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// Compare recordings although one lacks a part of the other: `allow_partial`.
    AllowPartial,
    /// Name the steps by their annotations: `steps`.
    NameSteps,
    /// Compare the highest occurrences of phases instead of those of the same number: `PhaseOptions`.
    CompareHighestPhases,
    /// State the allocator settings of the run: `allocator_settings`.
    StateAllocatorSettings,
}

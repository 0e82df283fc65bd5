//! A safe, streaming reader of Python pickles, and a writer of plain ones.
//!
//! It reads protocols 2 to 5 as far as they describe plain data: numbers, strings, bytes, tuples, lists, dictionaries
//! and sets. Every opcode that could import, build or call something is refused by name before anything happens; there
//! is not any code that could execute it.
//!
//! The reader drives a [`Visitor`], which decides what a value is and how much of it is kept. The
//! reader itself holds only the stack, the memo and one buffer of the input, and no recursion follows
//! the input. It knows nothing of PyTorch.

mod buffer;
mod error;
mod memo;
mod opcode;
mod reader;
mod runs;
mod shapes;
mod write;

pub use error::{ErrorKind, PickleError};
pub use reader::read;
pub use write::another_entry;

/// Builds values as the reader meets them.
///
/// Containers are created empty and filled later, possibly in several parts and possibly after other
/// values already refer to them, as the format demands.
///
/// An operation that returns an error must not have changed anything: the reader may ask for it again, to say where it
/// failed.
pub trait Visitor {
    /// A handle to a value. The reader copies it freely between stack and memo.
    type Value: Copy + PartialEq;
    /// The same as the memo keeps it. There may be millions, so it should be small.
    type Kept: Copy;
    /// A handle to the contents that a list received at once; see [`Visitor::remember`].
    type Run: Copy;
    /// A handle to how a dictionary was understood; see [`Visitor::shape`].
    type Shape;
    /// The objections of the visitor.
    type Error: std::error::Error + 'static;

    /// A handle for the memo.
    fn keep(&mut self, value: Self::Value) -> Self::Kept;
    /// The handle that was kept.
    fn kept(&self, kept: Self::Kept) -> Self::Value;

    /// `None`.
    fn none(&mut self) -> Self::Value;
    /// `True` or `False`.
    fn bool(&mut self, value: bool) -> Self::Value;
    /// An integer that fits 64 bits: nearly all of them.
    fn int(&mut self, value: i64) -> Self::Value;
    /// Any other integer; `None` is one of more than 128 bits.
    fn wide_int(&mut self, value: Option<i128>) -> Self::Value;
    /// A float.
    fn float(&mut self, value: f64) -> Self::Value;
    /// A string, as UTF-8 in which Python may have left lone surrogates. Equal strings are equal values.
    fn str(&mut self, utf8: &[u8]) -> Self::Value;
    /// A byte string.
    fn bytes(&mut self, bytes: &[u8]) -> Self::Value;
    /// A tuple. Tuples of equal items are equal values.
    ///
    /// # Errors
    /// The objection of the visitor.
    fn tuple(&mut self, items: &[Self::Value]) -> Result<Self::Value, Self::Error>;
    /// A new, empty list.
    fn list(&mut self) -> Self::Value;
    /// A new, empty dictionary.
    fn dict(&mut self) -> Self::Value;
    /// A new, empty set (`frozenset` too).
    fn set(&mut self) -> Self::Value;
    /// Appends to a list.
    ///
    /// # Errors
    /// `None` if `list` is not a list, otherwise the visitor's objection.
    fn extend(&mut self, list: Self::Value, items: &[Self::Value]) -> Result<(), Option<Self::Error>>;
    /// Puts alternating keys and values into a dictionary. The number of items is even.
    ///
    /// # Errors
    /// `None` if `dict` is not a dictionary, otherwise the visitor's objection.
    fn update(&mut self, dict: Self::Value, items: &[Self::Value]) -> Result<(), Option<Self::Error>>;

    /// Adds to a set.
    ///
    /// # Errors
    /// `None` if `set` is not a set, otherwise the visitor's objection.
    fn add(&mut self, set: Self::Value, items: &[Self::Value]) -> Result<(), Option<Self::Error>>;

    /// A handle to the present contents of `list`, just after a [`Visitor::extend`] with nothing but values from the
    /// memo. `None` if the visitor keeps no such handle, or if the list had contents before. The reader passes it to
    /// [`Visitor::recall`] when the same references occur again.
    fn remember(&mut self, list: Self::Value) -> Option<Self::Run>;
    /// Does to `list` what `extend` did before `run` was remembered, or returns false and changes
    /// nothing where that is not possible (the list is not empty, or the values have changed since).
    fn recall(&mut self, list: Self::Value, run: Self::Run) -> bool;

    /// How `items` were understood, which alone filled `dict` just now, where dictionaries that differ from it in a few
    /// values may follow. The reader passes that to [`Visitor::update_alike`] where one does.
    fn shape(&self, dict: Self::Value, items: &[Self::Value]) -> Option<AlikeDictionaries<Self::Shape>>;
    /// Does to `dict`, which is new, what [`Visitor::update`] does, for items that differ from those that `shape` was made of in
    /// [`AlikeDictionaries::varying`] alone, and only `varying` are given; or returns false and changes nothing where that is not possible.
    fn update_alike(&mut self, dict: Self::Value, shape: &Self::Shape, varying: &[Self::Value]) -> bool;
}

/// What dictionaries that are alike have in common.
pub struct AlikeDictionaries<S> {
    /// The visitor's handle.
    pub shape: S,
    /// The indices of the items that differ, in order.
    pub varying: Vec<usize>,
}

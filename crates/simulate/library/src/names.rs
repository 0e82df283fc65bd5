//! Functions of NVIDIA's libraries that PyTorch and its extensions import and that have no code of their own here.
//!
//! `names.txt` lists them with how each is answered. `names.py` writes it from the libraries of PyTorch's releases, and
//! the build script wraps it in a call of `names!`.

use crate::ffi::Out;
use crate::ledger::{AnswerKind, answer};

/// Exports a function for each name. A name's index is its place in the list.
macro_rules! names {
    ($($kind:ident $name:ident)*) => {
        /// All names.
        pub(crate) static NAMES: &[&str] = &[$(stringify!($name)),*];
        /// How each is answered.
        pub(crate) static KIND: &[AnswerKind] = &[$(AnswerKind::$kind),*];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($name),* }

        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(first: Out<u64>) -> usize {
                answer(Index::$name as usize, first)
            }
        )*
    };
}

include!(concat!(env!("OUT_DIR"), "/names.rs"));

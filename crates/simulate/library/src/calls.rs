//! Exports of functions by tables.

/// Exports functions whose bodies are one expression.
macro_rules! calls {
    ($result:ty; $($(#[$documentation:meta])* $name:ident($($argument:ident: $kind:ty),*) = $body:expr;)*) => {
        $(
            $(#[$documentation])*
            #[unsafe(no_mangle)]
            pub extern "C" fn $name($($argument: $kind),*) -> $result {
                $body
            }
        )*
    };
}
pub(crate) use calls;

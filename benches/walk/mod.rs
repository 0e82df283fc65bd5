//! A bare loop over the opcodes of a pickle: the least that any reader of it has to do.

use std::io::{self, Read};

/// An opcode is at most this long with its argument, the text of strings aside.
const LONGEST: usize = 9;

/// The number of opcodes up to STOP, or to the end where there is none.
///
/// It knows the opcodes that CPython's pickler uses for plain data and looks at nothing but lengths.
///
/// # Errors
/// Those of `input`.
pub(crate) fn walk(mut input: impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; 256 * 1024];
    let (mut at, mut end) = (0, 0);
    let mut opcodes = 0;
    loop {
        // The text of a string may reach past what is there.
        let used = at.min(end);
        buffer.copy_within(used..end, 0);
        at -= used;
        end -= used;
        let read = input.read(&mut buffer[end..])?;
        end += read;
        // At the end of the input an opcode that is cut off takes its argument from old bytes, and the
        // loop ends all the same.
        let safe = if read == 0 { end.min(buffer.len() - LONGEST) } else { end.saturating_sub(LONGEST) };
        while at < safe {
            opcodes += 1;
            at += match buffer[at] {
                // BINGET, BININT1, PROTO.
                b'h' | b'K' | 0x80 => 2,
                // LONG_BINGET, BININT.
                b'j' | b'J' => 5,
                // BININT2.
                b'M' => 3,
                // BINFLOAT, FRAME.
                b'G' | 0x95 => 9,
                // LONG1, SHORT_BINUNICODE.
                0x8a | 0x8c => 2 + usize::from(buffer[at + 1]),
                // BINUNICODE.
                b'X' => {
                    let [a, b, c, d] = [1, 2, 3, 4].map(|i| usize::from(buffer[at + i]));
                    5 + (a | b << 8 | c << 16 | d << 24)
                }
                // STOP.
                b'.' => return Ok(opcodes),
                _ => 1,
            };
        }
        if read == 0 {
            return Ok(opcodes);
        }
    }
}

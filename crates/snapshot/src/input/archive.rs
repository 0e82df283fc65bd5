//! The archives of `torch.save`.

use std::io::{self, Read};

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive};

use super::bad;

/// The largest archive that is read. Its directory is at its end, so the whole archive is kept in memory.
const LARGEST: u64 = 1 << 30;

/// Hands the member `data.pkl` to `read`, which reads all of it, so that its checksum is checked.
///
/// # Errors
/// Errors of `read`; and if the archive is damaged, too large, or has no such member.
pub(super) fn read_pickle<T, E: From<io::Error>>(
    input: &mut dyn Read,
    read: &mut dyn FnMut(&mut dyn Read) -> Result<T, E>,
) -> Result<T, E> {
    let mut bytes = Vec::new();
    input.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(
            bad("the ZIP archive is larger than 1 GiB; if it holds a snapshot, unpack its data.pkl first").into()
        );
    }
    let archive = ZipArchive::from_slice(&bytes).map_err(damaged)?;
    let mut members = archive.entries();
    let mut pickle = None;
    while let Some(member) = members.next_entry().map_err(damaged)? {
        // `torch.save` calls the folder after the file.
        let name = member.file_path();
        if name.as_ref() != b"data.pkl" && !name.as_ref().ends_with(b"/data.pkl") {
            continue;
        }
        // Another reader may take the other.
        if pickle.is_some() {
            return Err(bad("the ZIP archive holds several data.pkl; expected one, as torch.save() writes").into());
        }
        if member.flags().is_encrypted() {
            return Err(bad("the ZIP archive is encrypted; unpack it first").into());
        }
        pickle = Some((member.compression_method(), member.wayfinder()));
    }
    let Some((method, place)) = pickle else {
        return Err(bad("the ZIP archive holds no data.pkl; expected what torch.save() writes, or a pickle from \
             torch.cuda.memory._dump_snapshot()")
        .into());
    };
    let packed = archive.get_entry(place).map_err(damaged)?;
    let unpacked: Box<dyn Read> = match method {
        CompressionMethod::STORE => Box::new(packed.data()),
        CompressionMethod::DEFLATE => Box::new(DeflateDecoder::new(packed.data())),
        _ => return Err(bad("the ZIP archive uses a compression other than deflate; unpack it first").into()),
    };
    read(&mut packed.verifying_reader(unpacked))
}

fn damaged(error: rawzip::Error) -> io::Error {
    bad(&format!("the ZIP archive is damaged or cut off: {error}"))
}

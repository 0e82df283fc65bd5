//! Snapshots and profiles in gzip, Zstandard and the archives of `torch.save` are those that they wrap.

use std::fs;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use ptmem::profile::{self, Opened, ReadOptions};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn fixture(name: &str) -> Vec<u8> {
    fs::read([env!("CARGO_MANIFEST_DIR"), "fixtures", name].iter().collect::<PathBuf>()).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

/// As `torch.save` writes: everything in a folder that is called after the file, stored.
fn archive(members: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// As `torch.save` writes: checksum and size of each member stand behind it and in the central directory, and the
/// header in front of it (flag bit 3) leaves them out.
fn torch_save(pickle: &[u8]) -> Vec<u8> {
    let members: [(&str, &[u8]); 4] = [
        ("snapshot/data.pkl", pickle),
        ("snapshot/byteorder", b"little"),
        ("snapshot/version", b"3\n"),
        ("snapshot/.data/serialization_id", b"0636457737946401051300000025273995036293"),
    ];
    streamed_archive(&members, false)
}

/// An archive of stored members whose sizes stand behind them, in 32 bits or in 64.
fn streamed_archive(members: &[(&str, &[u8])], wide: bool) -> Vec<u8> {
    const FLAGS: u16 = 0x808;
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in members {
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes);
        let crc = crc.finalize().to_le_bytes();
        let offset = u32::try_from(archive.len()).unwrap();
        let length = u32::try_from(bytes.len()).unwrap();
        let name_length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let versions_and_flags = [&[0, 0][..], &FLAGS.to_le_bytes(), &[0; 6]].concat();
        archive.extend(
            [b"PK\x03\x04", &versions_and_flags[..], &[0; 12], &name_length, &[3, 0], name.as_bytes(), b"FB\0"]
                .concat(),
        );
        archive.extend_from_slice(bytes);
        archive.extend([&b"PK\x07\x08"[..], &crc].concat());
        let sizes =
            if wide { [u64::from(length).to_le_bytes(); 2].concat() } else { [length.to_le_bytes(); 2].concat() };
        archive.extend(sizes);
        directory.extend([&b"PK\x01\x02\0\0"[..], &versions_and_flags, &crc].concat());
        directory.extend([length.to_le_bytes(); 2].concat());
        directory.extend([&name_length[..], &[0; 12], &offset.to_le_bytes(), name.as_bytes()].concat());
    }
    let count = u16::try_from(members.len()).unwrap().to_le_bytes();
    let sizes = [directory.len(), archive.len()].map(|size| u32::try_from(size).unwrap().to_le_bytes()).concat();
    archive.extend(directory);
    archive.extend([&b"PK\x05\x06\0\0\0\0"[..], &count, &count, &sizes, &[0, 0]].concat());
    archive
}

fn open(bytes: &[u8], max_input: Option<u64>) -> Result<Opened, String> {
    let options = ReadOptions { max_input, ..ReadOptions::default() };
    profile::open(bytes, "x", options).map_err(|error| error.to_string())
}

/// The whole content of an input, as text.
fn content(bytes: &[u8]) -> String {
    match open(bytes, None).unwrap() {
        Opened::Snapshot(snapshot, source) => {
            assert_eq!(source.bytes, bytes.len() as u64, "the size of the file");
            format!("{:?} {:?} {:?}", snapshot.events, snapshot.devices, snapshot.annotations)
        }
        Opened::Profile(profile) => format!("{:?}", profile.devices),
    }
}

#[test]
fn what_expands_as_no_snapshot_does_is_refused() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; 8 << 20]).unwrap();
    let zeros = encoder.finish().unwrap();
    let bomb = [gzip(&fixture("before.pkl")), zeros.repeat(9)].concat();
    assert!(open(&bomb, None).unwrap_err().contains("expands to more than 64.00 MiB"));
    assert!(open(&bomb, Some(1 << 30)).is_ok());
}

#[test]
fn what_is_wrapped_is_read_as_it_is() {
    for name in ["after.pkl", "torch-1.13.pkl", "torch-2.15.pkl", "empty.pkl"] {
        let plain = fixture(name);
        let expected = content(&plain);
        let archived = torch_save(&plain);
        let deflated = archive(&[("other.txt", b"first"), ("a/data.pkl", &plain)], CompressionMethod::Deflated);
        for (how, wrapped) in [
            ("gzip", gzip(&plain)),
            ("two members", [gzip(&plain[..9]), gzip(&plain[9..])].concat()),
            ("zstd", zstd(&plain)),
            ("two frames", [zstd(&plain[..9]), zstd(&plain[9..])].concat()),
            ("torch.save", archived.clone()),
            ("deflated", deflated),
            ("an archive of another writer", archive(&[("a/data.pkl", &plain)], CompressionMethod::Stored)),
            ("sizes of 64 bits", streamed_archive(&[("tensors", b"PK\x07\x08PK"), ("a/data.pkl", &plain)], true)),
            ("a descriptor within", streamed_archive(&[("x", &archived), ("a/data.pkl", &plain)], false)),
            ("gzip of an archive", gzip(&archived)),
            ("zstd of gzip", zstd(&gzip(&plain))),
        ] {
            assert!(content(&wrapped) == expected, "{name} in {how}");
        }
    }
    let profile = {
        let Opened::Snapshot(snapshot, source) = open(&fixture("after.pkl"), None).unwrap() else { panic!() };
        let profile = profile::measure(*snapshot, source, ReadOptions::default()).unwrap();
        profile::saved::text_of(&profile, &[]).unwrap()
    };
    assert_eq!(content(&gzip(profile.as_bytes())), content(profile.as_bytes()));
}

#[test]
fn what_expands_to_more_than_is_allowed_is_refused() {
    let plain = fixture("after.pkl");
    let size = plain.len() as u64;
    for wrapped in [gzip(&plain), zstd(&plain), torch_save(&plain), zstd(&gzip(&plain))] {
        assert!(open(&wrapped, Some(size + 4096)).is_ok());
        let error = open(&wrapped, Some(size / 2)).unwrap_err();
        assert!(error.contains("expands to more than"), "{error}");
        // Also where the pickle is over and the rest is not.
        let more = [&plain[..], &vec![0; 1 << 20]].concat();
        assert!(open(&gzip(&more), Some(size + 4096)).unwrap_err().contains("expands to more"));
    }
    // Uncompressed input may have any size.
    assert!(open(&plain, Some(1)).is_ok());
    // 64 MiB of one byte, in a few hundred KiB.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    io::copy(&mut io::Read::take(io::repeat(b'N'), 64 << 20), &mut encoder).unwrap();
    let bomb = [&b"\x80\x04("[..], &[]].concat();
    let bomb = [gzip(&bomb), encoder.finish().unwrap()].concat();
    let error = open(&bomb, Some(4 << 20)).unwrap_err();
    assert!(error.contains("expands to more than") || error.contains("byte"), "{error}");
}

/// A byte of JSON takes several bytes of memory.
#[test]
fn json_expands_to_less_than_a_pickle() {
    let of_classes = |count: usize| format!("{{\"schema\":\"ptmem.profile/3\",\"frames\":[{}0]}}", "[],".repeat(count));
    let [small, large] = [1 << 20, 3 << 20].map(of_classes);
    assert!(open(&gzip(small.as_bytes()), None).unwrap_err().contains("cannot be read as a saved profile"));
    assert!(open(&gzip(large.as_bytes()), None).unwrap_err().contains("expands to more than 8.00 MiB"));
    for max_input in [Some(128 << 20), Some(1)] {
        // As it is, a file may have any size.
        let bytes = if max_input == Some(1) { large.clone().into_bytes() } else { gzip(large.as_bytes()) };
        assert!(open(&bytes, max_input).unwrap_err().contains("cannot be read as a saved profile"));
    }
}

/// A pipe gives a few bytes at a time.
struct Trickle<'b>(&'b [u8], usize);

impl io::Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn archives_come_through_pipes() {
    let plain = fixture("after.pkl");
    let saved = torch_save(&plain);
    for step in [1, 7, 1000] {
        let opened = profile::open(Trickle(&saved, step), "-", ReadOptions::default()).unwrap();
        let Opened::Snapshot(snapshot, source) = opened else { panic!("a snapshot was saved") };
        assert_eq!(source.bytes, saved.len() as u64);
        assert!(!snapshot.events.is_empty());
    }
}

/// An archive that PyTorch's own `torch.save` wrote.
#[test]
fn a_recorded_archive_is_read() {
    let bytes = fixture("recorded/corners/archive-2.11.0.pt");
    let Opened::Snapshot(snapshot, source) = open(&bytes, None).unwrap() else { panic!("it holds a snapshot") };
    assert_eq!(source.bytes, bytes.len() as u64);
    assert!(!snapshot.events.is_empty());
}

#[test]
fn damage_is_told() {
    let plain = fixture("after.pkl");
    let expected = content(&plain);
    for (what, wrapped) in [("gzip", gzip(&plain)), ("Zstandard", zstd(&plain)), ("ZIP", torch_save(&plain))] {
        // Cut off anywhere within the data.
        for length in [wrapped.len() / 3, wrapped.len() / 2] {
            let error = open(&wrapped[..length], None).unwrap_err();
            assert!(error.contains(what), "{what} cut to {length}: {error}");
        }
        // A bit is wrong: the checksum, or the format, or the pickle shows it.
        for at in (30..wrapped.len() * 2 / 3).step_by(wrapped.len() / 40) {
            let mut damaged = wrapped.clone();
            damaged[at] ^= 4;
            // Some bits mean nothing.
            let unseen = open(&damaged, None).is_ok() && content(&damaged) != expected;
            assert!(!unseen, "{what}: a bit of byte {at} of {} went unseen", wrapped.len());
        }
    }
    let without = archive(&[("a/tensors", b"x")], CompressionMethod::Stored);
    assert!(open(&without, None).unwrap_err().contains("no data.pkl"));
    // Another reader may take the other.
    for second in ["a/data.pkl", "b/data.pkl", "data.pkl"] {
        let both = streamed_archive(&[("a/data.pkl", &plain), ("x", b"y"), (second, &plain)], false);
        assert!(open(&both, None).unwrap_err().contains("several data.pkl"), "{second}");
    }
    let mut often = plain;
    (0..6).for_each(|_| often = gzip(&often));
    assert!(open(&often, None).unwrap_err().contains("too many times"));
    for start in [&b"\x1f\x8b"[..], b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PK\x03\x04\0\0\0"] {
        assert!(open(start, None).is_err(), "{start:?}");
    }
}

#[test]
fn the_tool_reads_them_from_files_and_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], stdin: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(folder.path()).args(arguments);
        if let Some(path) = stdin {
            command.stdin(fs::File::open(path).unwrap());
        }
        let output = command.output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    fs::write(folder.path().join("before.pkl.gz"), gzip(&fixture("before.pkl"))).unwrap();
    fs::write(folder.path().join("after.pt"), torch_save(&fixture("after.pkl"))).unwrap();
    let (code, table, _) = run(&["diff", "before.pkl.gz", "after.pt", "--max-growth", "5%"], None);
    assert_eq!(code, 1);
    assert!(table.contains("+53.80 MiB"), "{table}");
    let (code, table, _) = run(&["show", "-"], Some(&folder.path().join("after.pt")));
    assert_eq!(code, 0);
    assert!(table.contains("333.95 MiB"), "{table}");
    fs::write(folder.path().join("ptmem.toml"), "max-input = '100KiB'\n").unwrap();
    let (code, _, error) = run(&["show", "before.pkl.gz"], None);
    assert_eq!(code, 2);
    assert!(
        error.contains("before.pkl.gz") && error.contains("100.00 KiB") && error.contains("max-input = "),
        "{error}"
    );
}

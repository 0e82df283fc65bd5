//! Makes files of machine code for tests and for fuzzing.

/// An ELF file with sections of these names and contents.
pub(crate) fn with_sections(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"\x7FELF\x02\x01".to_vec();
    bytes.resize(64, 0);
    let mut headers = vec![0; 64];
    let mut names = vec![0];
    for (name, contents) in sections {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
        header[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(contents.len() as u64).to_le_bytes());
        headers.extend(header);
        names.extend(name.as_bytes());
        names.push(0);
        bytes.extend(contents);
    }
    let at_names = bytes.len() as u64;
    bytes.extend(names);
    let mut header = [0; 64];
    header[24..32].copy_from_slice(&at_names.to_le_bytes());
    headers.extend(header);
    let at_headers = bytes.len() as u64;
    bytes[0x28..0x30].copy_from_slice(&at_headers.to_le_bytes());
    bytes[0x3C..0x3E].copy_from_slice(&(sections.len() as u16 + 2).to_le_bytes());
    bytes[0x3E..0x40].copy_from_slice(&(sections.len() as u16 + 1).to_le_bytes());
    bytes.extend(headers);
    bytes
}

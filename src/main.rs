//! x
fn main() {
    for p in std::env::args().skip(1) {
        let t = std::time::Instant::now();
        match ptmem::snapshot::read(std::fs::File::open(&p).unwrap()) {
            Ok(s) => println!("{p} {} events {} stacks {:?} {:?}", s.events.len(), s.tables.stack_count(), s.devices.iter().map(|(k,v)|(k, v.segments.len(), v.events.len())).collect::<Vec<_>>(), t.elapsed()),
            Err(e) => println!("{p} {e}"),
        }
    }
}

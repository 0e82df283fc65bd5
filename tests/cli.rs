//! Command lines with their whole output. `TRYCMD=overwrite cargo test --test cli` rewrites the files.

#![allow(missing_docs)]

#[test]
fn command_lines_print_what_is_written() {
    let cases = trycmd::TestCases::new();
    // What the surroundings say must not change the output.
    cases
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .env("TERM", "dumb")
        .insert_var("[VERSION]", env!("CARGO_PKG_VERSION"))
        .expect("a variable of that name");
    cases.case("tests/cmd/*.md").case("docs/*.md").case("README.md");
}

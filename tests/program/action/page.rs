//! The page: written by the run, linked from the report and the summary once it is uploaded.

use std::fs;

use super::run::gate;
use super::{Job, skipped};

#[test]
fn the_run_writes_a_page_where_it_is_asked_for() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    job.run("run.sh");
    assert!(!job.outputs().contains_key("report-page"));
    job.set("PTMEM_PAGE", "true").set("PTMEM_NAME", "a/b");
    job.set("PTMEM_ANNOTATIONS", "false").run("run.sh").is_quiet();
    let outputs = job.outputs();
    assert!(fs::read_to_string(&outputs["report-page"]).unwrap().starts_with("<!DOCTYPE html>"));
    let artifact = &outputs["artifact"];
    assert!(artifact.starts_with("ptmem-a-b-") && artifact.len() > "ptmem-a-b-".len(), "{artifact}");
    job.set("PTMEM_PAGE", "maybe");
    job.run("run.sh").says(0, "page: 'maybe' is not accepted; expected one of: true, false");
}

fn linking(address: &str) -> Job {
    let mut job = Job::new();
    let report = job.path("report.md");
    fs::write(&report, "the report\n").unwrap();
    job.set("PTMEM_REPORT", report).set("PTMEM_PAGE_ADDRESS", address);
    job
}

const ADDRESS: &str = "https://example.com/someone/model/actions/runs/7/artifacts/9";

#[test]
fn an_uploaded_page_is_linked() {
    if skipped() {
        return;
    }
    let mut job = linking(ADDRESS);
    job.run("page.sh").is_quiet();
    assert!(job.read("report.md").contains(&format!("]({ADDRESS}): ")) && job.read("summary").contains(ADDRESS));
    // A report that is full already does not grow.
    fs::write(job.path("report.md"), "x".repeat(65_000)).unwrap();
    job.set("PTMEM_SUMMARY", "false").run("page.sh").is_quiet();
    assert_eq!(job.read("report.md").len(), 65_000);
    assert_eq!(job.read("summary").matches(ADDRESS).count(), 1);
}

#[test]
fn what_is_no_address_is_not_linked() {
    if skipped() {
        return;
    }
    for address in ["", "javascript:alert(1)", "https://a b", "https://example.com/) <script>"] {
        let job = linking(address);
        job.run("page.sh").says(0, "the page was not uploaded");
        assert_eq!((job.read("report.md").as_str(), job.read("summary").as_str()), ("the report\n", ""));
    }
}

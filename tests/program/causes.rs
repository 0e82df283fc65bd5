//! How memory grew, and the edit that a report leads with.

use std::fs;

use ptmem::sides::Sides;
use serde_json::Value;

use crate::support::history::{A, B, event, file, segment};
use crate::support::pickle::{self, Value as Pickled};
use crate::support::program::Program;
use crate::support::tool::{explanation, git, judged, ptmem, text, verdict};

use super::git::{BEFORE, Checkout, MIB};

/// The line that the change edits, in its function.
const EDITED: &[&str] = &["/ci/m.py:forward:4", "/ci/train.py:step:7"];
/// A line below it in that function, which the change leaves alone.
const BELOW: &[&str] = &["/ci/m.py:forward:11", "/ci/train.py:step:7"];
const LOSS: &[&str] = &["/ci/train.py:loss:30", "/ci/train.py:step:9"];
const MODULE: &[&str] = &[
    "/ci/m.py:forward:4",
    "/usr/lib/python3/site-packages/torch/nn/modules/module.py:_call_impl:9",
    "/ci/train.py:step:7",
];
const AUTOGRAD: &[&str] = &["/usr/lib/python3/site-packages/torch/autograd/function.py:apply:307"];
const BACKWARD: &[&str] = &["??:torch::autograd::generated::AddmmBackward0::apply:0"];

/// What a program does: `+` allocates, `-` frees, and a name in brackets begins and ends a phase. `x`, `m`, `y` and `z` come from
/// the edited line, the same within a module, the loss and the backward pass, `k` from a line below; `X` and `K` are half as large
/// as `x` and `k`, `W` is four times as large as `x`.
fn program(story: &str) -> Vec<u8> {
    let mut program = Program::default();
    for word in story.split(' ') {
        let (action, name) = word.split_at(1);
        let frames = match &name[..1] {
            "k" | "K" => BELOW,
            "m" => MODULE,
            "y" => LOSS,
            "z" => BACKWARD,
            _ => EDITED,
        };
        match action {
            "+" => program.alloc_under(name, frames, size(name)),
            "-" => program.free(name),
            "[" => program.mark("START", name),
            _ => program.mark("END", name),
        }
    }
    program.snapshot()
}

fn size(name: &str) -> u64 {
    match &name[..1] {
        "X" | "K" => MIB / 2,
        "W" => MIB * 4,
        _ => MIB,
    }
}

/// A checkout whose change edits a line, with the recordings of both sides.
fn edited(before: &str, after: &str) -> Checkout {
    let checkout = Checkout::new("m.py");
    checkout.write("m.py", BEFORE.replace("layer(x)", "wider(x)"));
    checkout.commit("wider");
    for (name, story) in [("before.pkl", before), ("after.pkl", after)] {
        fs::write(checkout.path().join(name), program(story)).unwrap();
    }
    checkout
}

/// The cause that a report with this limit has in JSON.
fn cause(checkout: &Checkout, limit: &str) -> Value {
    let output = checkout.ptmem(&["--git", "main", "--max-growth", limit, "--format", "json"]);
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["verdict"], "regression", "{report:#}");
    let cause = report["devices"][0]["cause"].take();
    let shares = cause["edits"].as_array().unwrap().iter().map(|edit| edit["bytes"].as_u64().unwrap());
    assert_eq!(shares.sum::<u64>() + cause["no_edit"].as_u64().unwrap(), cause["grown"], "{cause:#}");
    cause
}

#[test]
fn growth_has_a_kind() {
    let ys = "+y1 +y2 +y3";
    for (before, after, kind) in [
        (format!("+x1 {ys}"), format!("+x1 +x2 +x3 {ys}"), "more allocations"),
        (format!("+X1 +X2 {ys}"), format!("+x1 +x2 {ys}"), "larger allocations"),
        (format!("+x1 -x1 {ys}"), format!("+x1 {ys} -x1"), "freed before, now kept longer"),
        (format!("+x1 -x1 {ys}"), format!("+x1 {ys}"), "freed before, now kept until the end of the recording"),
        (ys.to_owned(), format!("+x1 {ys}"), "new"),
        (format!("{ys} -y1 -y2 -y3 +x1"), format!("+x1 {ys}"), "the same before, at another moment"),
    ] {
        let cause = cause(&edited(&before, &after), "peak=0");
        assert_eq!(cause["edits"][0]["growth"], kind, "{before} | {after}: {cause:#}");
        assert_eq!((&cause["place"], &cause["edits"][0]["leads"]), (&"at the peak".into(), &true.into()));
    }
}

/// As of a teacher of the student's class that loses its `no_grad`: only its block was freed before the backward pass.
#[test]
fn what_is_kept_was_freed_where_its_own_blocks_were() {
    let student = "+m2 +y1 +y2 +z1 -m2";
    let rest = "-y1 +z2 -z1 -y2 -z2";
    let checkout = edited(&format!("+m1 -m1 {student} {rest}"), &format!("+m1 {student} -m1 {rest}"));
    let cause = cause(&checkout, "0");
    assert_reads!(cause["lead"].as_str().unwrap() => str!["All of the growth at the peak passes through m.py:4, where this change writes `h = wider(x)`. Largest: forward (m.py:4) (freed inside forward before, now kept longer)."]);
}

/// The reason why the block of a line, which the before frees, is kept after a change of the code.
fn kept_block(code: Sides<&str>, line: u32) -> String {
    let checkout = Checkout::new("m.py");
    checkout.write("m.py", code.before);
    commit_base(&checkout);
    checkout.write("m.py", code.after);
    for (name, line, is_freed) in [("before.pkl", 5, true), ("after.pkl", line, false)] {
        let mut program = Program::default();
        program.alloc_under("x", &[&format!("/ci/m.py:forward:{line}"), EDITED[1]], MIB);
        program.alloc_under("y", LOSS, MIB);
        if is_freed {
            program.free("x");
        }
        program.alloc_under("z", LOSS, MIB);
        fs::write(checkout.path().join(name), program.snapshot()).unwrap();
    }
    cause(&checkout, "0")["lead"].as_str().unwrap().to_owned()
}

/// A graph keeps what a line allocates, also where the change edits that line.
#[test]
fn blocks_that_a_graph_keeps_lead_to_what_switched_gradients_off() {
    let call = "        h = layer(x)\n        h = relu(h)\n";
    let before = &*BEFORE.replace("    h = layer(x)\n", &format!("    with torch.no_grad():\n{call}"));
    let detached = &*before.replace("layer(x)", "layer(x).detach()");
    let replaced = &*detached.replace("with torch.no_grad()", "if True");
    let dedented = &*replaced.replace("    if True:\n", "").replace("        h", "    h");
    assert_reads!(kept_block(Sides { before, after: dedented }, 4) => str!["All of the growth at the peak passes through m.py:4, where this change removes `with torch.no_grad():`. Largest: forward (m.py:4) (freed before, now kept until the end of the recording; inferred: a graph is now recorded here). The change has other edits that can matter: m.py:4 (now `h = layer(x).detach()`)."]);
    assert_reads!(kept_block(Sides { before, after: replaced }, 5) => str!["All of the growth at the peak passes through m.py:5, where this change removes `with torch.no_grad():`. Largest: forward (m.py:5) (freed before, now kept until the end of the recording; inferred: a graph is now recorded here)."]);
    let below = &*replaced.replace("h = relu(h)", "h = relu(h).detach()").replace("layer(x).detach()", "layer(x)");
    assert_reads!(kept_block(Sides { before, after: below }, 5) => str!["All of the growth at the peak passes through m.py:5, where this change removes `with torch.no_grad():`. Largest: forward (m.py:5) (freed before, now kept until the end of the recording; inferred: a graph is now recorded here). The change has other edits that can matter: m.py:6 (now `h = relu(h).detach()`)."]);
    assert_reads!(kept_block(Sides { before, after: below }, 6) => str!["All of the growth at the peak passes through m.py:6, where this change removes `with torch.no_grad():`. Largest: forward (m.py:6) (freed before, now kept until the end of the recording; inferred: a graph is now recorded here). The change has other edits that can matter: m.py:6 (now `h = relu(h).detach()`)."]);
    // The line may keep them itself.
    let kept = &*dedented.replace("layer(x).detach()", "layer(x)").replace("h = relu(h)", "self.seen.append(relu(h))");
    assert_reads!(kept_block(Sides { before, after: kept }, 5) => str!["All of the growth at the peak passes through m.py:5, where this change writes `self.seen.append(relu(h))`. Largest: forward (m.py:5) (freed before, now kept until the end of the recording). The change has other edits that can matter: m.py:4 (removed `with torch.no_grad():`)."]);
    // Gradients may still be off.
    let around = &*replaced.replace("def forward", "@torch.no_grad()\ndef forward");
    assert_reads!(kept_block(Sides { before, after: around }, 6) => str!["All of the growth at the peak passes through m.py:6, where this change writes `h = layer(x).detach()`. Largest: forward (m.py:6) (freed before, now kept until the end of the recording). The change has other edits that can matter: m.py:3 (added `@torch.no_grad()`)."]);
}

#[test]
fn a_pass_counts_stacks_that_hold_at_the_peak_what_they_held_at_another_moment() {
    let checkout = edited("+y1 +y2 +y3 -y1 -y2 -y3 +x1", "+x1 +y1 +y2 +y3");
    let line = |limit| judged(verdict(&checkout.ptmem(&["--max-growth", limit])));
    assert_reads!(line("stack=0") => str!["0: PASS no stack grew by more than 0 B, except 1 whose highest did not, but end grew 3.00 MiB (+300.0 %)"]);
    assert_reads!(line("stack=1MiB") => str!["0: PASS no stack grew by more than 1.00 MiB, but end grew 3.00 MiB (+300.0 %)"]);
    // At a moment that is named, what is held there counts.
    assert_reads!(judged(verdict(&checkout.ptmem(&["--max-growth", "stack=0", "--at", "event:1"]))) => str!["1: FAIL stack forward (m.py:4) grew 1.00 MiB, allowed 0 B"]);
}

#[test]
fn the_figure_that_grew_decides_about_the_edit() {
    let through = "passes through m.py:4, where this change writes `h = wider(x)`";
    let end = edited("+y1 +y2 +y3 -y1 -y2 -y3 +x1 -x1", "+y1 +y2 +y3 -y1 -y2 -y3 +x1");
    let lead = cause(&end, "end=0")["lead"].as_str().unwrap().to_owned();
    let largest = "Largest: forward (m.py:4) (freed before, now kept until the end of the recording).";
    assert_eq!(lead, format!("All of the growth at the end {through}. {largest}"));
    // Every limit that this growth exceeds passes by one agreement.
    let accepted = "[[accept]]\nthrough = 'h = wider(x)'\nbytes = '1MiB'\nreason = 'r'\nexpires = 2999-12-31\n";
    end.write("ptmem.toml", accepted);
    assert_eq!(end.ptmem(&["--git", "main", "--max-growth", "end=0"]).status.code(), Some(0));

    let peak = "+y1 +y2 +y3 -y1 -y2 -y3";
    let phase = edited(&format!("{peak} [eval +x1 -x1 ]eval"), &format!("{peak} [eval +x1 +x2 -x1 -x2 ]eval"));
    assert_reads!(cause(&phase, "phase=0")["lead"].as_str().unwrap() => str!["All of the growth at the peak inside eval passes through m.py:4, where this change writes `h = wider(x)`. Largest: forward (m.py:4) (more allocations)."]);
    phase.write("ptmem.toml", accepted);
    assert_eq!(phase.ptmem(&["--git", "main", "--max-growth", "phase=0"]).status.code(), Some(0));

    // What is active grew no more than what is allocated.
    let active = edited("+x1 +y1", "+x1 +x2 +y1");
    let limits = ["--max-growth", "peak=0", "--max-growth", "active=0", "--format", "github"];
    assert_reads!(text(&active.ptmem(&[&["--git", "main"], &limits[..]].concat()).stdout) => str!["::error file=m.py,line=4,title=GPU memory%3A peak::peak grew 1.00 MiB (+50.0 %25), allowed 0 B. All of the growth at the peak passes through m.py:4, where this change writes `h = wider(x)`. Largest: forward (m.py:4) (more allocations).%0Aput down to the same edit: active grew 1.00 MiB (+50.0 %25), allowed 0 B%0A   +1.00 MiB     1.00 MiB ->    2.00 MiB  forward (m.py:4), leads to edit"]);
}

/// The checks that fail, with limits on the peak and on all phases.
fn failing(checkout: &Checkout) -> String {
    let report = text(&checkout.ptmem(&["--git", "main", "--max-growth", "peak=0", "--max-growth", "phase=0"]).stdout);
    let checks = report.lines().skip_while(|line| !line.starts_with("FAIL"));
    checks.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_check_that_fails_names_its_edit_or_what_grew_there() {
    // The peak and a phase grew through the edit.
    let both = edited("[e +x1 -x1 ]e", "[e +x1 +x2 -x1 -x2 ]e");
    assert_reads!(failing(&both) => str![[r#"
FAIL  peak grew 1.00 MiB (+100.0 %), allowed 0 B; 1 more check is put down to the same edit (m.py:4):
        phase e
"#]]);
    // The peak grew elsewhere, by more than one stack that leads to no edit, and the phases by as much as they did.
    let peak = "+y1 +z1 -y1 -z1";
    let more = "+y1 +z1 +y2 +z2 +z3 -y1 -z1 -y2 -z2 -z3";
    let phases = "[e +x1 -x1 ]e [f +y1 -y1 ]f [f +y1 -y1 ]f";
    let grown = "[e +x1 +x2 -x1 -x2 ]e [f +y1 +y2 -y1 -y2 ]f [f +y1 +y2 -y1 -y2 ]f";
    let apart = edited(&format!("{peak} {phases}"), &format!("{more} {grown}"));
    apart.write("train.py", "def loss(): pass\n");
    assert_reads!(failing(&apart) => str![[r#"
FAIL  peak grew 3.00 MiB (+150.0 %), allowed 0 B
FAIL  phase e grew 1.00 MiB (+100.0 %), allowed 0 B; put down to m.py:4
FAIL  phase f #0 grew 1.00 MiB (+100.0 %), allowed 0 B (2 of 2 occurrences exceed it; largest growth there: loss (train.py:30) +1.00 MiB)
"#]]);
}

/// What a report says of an agreement about an edit that is in no comparison.
fn of_unused(checkout: &Checkout, edit: &str, options: &[&str]) -> String {
    let entry = format!("[[accept]]\nthrough = '{edit}'\nbytes = '1MiB'\nreason = 'r'\nexpires = 2999-12-31\n");
    checkout.write("ptmem.toml", entry);
    let report = text(&checkout.ptmem(&[&["--max-growth", "0"], options].concat()).stdout);
    report.lines().filter(|line| line.contains("[unused-rule]")).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_agreement_whose_edit_the_change_lacks_is_reported() {
    let checkout = edited("+x1 +y1", "+x1 +x2 +y1");
    assert_reads!(of_unused(&checkout, "h = wide(x)", &["--git", "main"]) => str!["warning[unused-rule] [[accept]] through 'h = wide(x)' in the configuration matches no edit of any comparison; the nearest edit is 'h = wider(x)'"]);
    assert_reads!(of_unused(&checkout, "h = wider(x)", &["--git", "main"]) => str![]);
    // Without the change, its edits are not known.
    assert_reads!(of_unused(&checkout, "h = wide(x)", &[]) => str![]);
}

#[test]
fn an_agreement_to_an_edit_is_none_to_phases_that_other_code_raised() {
    let accepted = "[[accept]]\nthrough = 'h = wider(x)'\nbytes = '9MiB'\nreason = 'r'\nexpires = 2999-12-31\n";
    let layers: Vec<String> = (0..20).map(|at| format!("[f{at} +x1 -x1 +z1 -z1 ]f{at}")).collect();
    let [few, many] = [layers.join(" "), layers.join(" ").replace(" -x1", " +x2 -x1 -x2")];
    let mut lines = Vec::new();
    for (limit, before, after) in [
        // The occurrence that is most beyond the limit is not the one that grew most.
        (
            "phase=50%",
            "[e +y1 -y1 ]e [e +z1 +z2 +z3 +z4 -z4 ]e [f +y1 +y2 ]f",
            "[e +y1 +y2 -y1 -y2 ]e [e +z1 +z2 +z3 +z4 +y1 +y2 -z4 -y1 -y2 ]e [f +y1 +y2 +x1 +x2 +x3 ]f",
        ),
        // An absolute limit is about the first of those that grew equally.
        (
            "phase=512KiB",
            "[e +y1 +y2 -y1 -y2 ]e [e +y1 -y1 ]e [f +z1 +z2 ]f",
            "[e +y1 +y2 +y3 -y1 -y2 -y3 ]e [e +y1 +y2 -y1 -y2 ]e [f +z1 +z2 +x1 +x2 ]f",
        ),
        ("phase=0", &format!("{few} [e +y1 -y1 ]e"), &format!("{many} [e +y1 +y2 -y1 -y2 ]e")),
    ] {
        let checkout = edited(before, after);
        checkout.write("ptmem.toml", accepted);
        checkout.write("other.py", "def other(x):\n    return train(x)\n");
        checkout.commit("other");
        lines.push(judged(verdict(&checkout.ptmem(&["--git", "main", "--max-growth", limit]))));
    }
    assert_reads!(lines.join("\n") => str![[r#"
1: FAIL phase e #0 grew 1.00 MiB (+100.0 %), allowed 50 % (largest growth there: loss (train.py:30) +1.00 MiB)
1: FAIL phase e #0 grew 1.00 MiB (+50.0 %), allowed 512.00 KiB (2 of 2 occurrences exceed it; largest growth there: loss (train.py:30) +1.00 MiB)
1: FAIL phase e grew 1.00 MiB (+100.0 %), allowed 0 B (largest growth there: loss (train.py:30) +1.00 MiB)
"#]]);

    // The reserved bytes of a phase grew, and what is allocated there did not.
    let reserved = edited("[e +y1 ]e [f +y2 ]f", "[e +y1 ]e [f +y2 ]f");
    let mut program = Program::default();
    program.reserved = 4098;
    for (phase, blocks) in [("e", &[("y1", LOSS)][..]), ("f", &[("y2", LOSS), ("x1", EDITED), ("x2", EDITED)])] {
        program.mark("START", phase);
        blocks.iter().for_each(|(name, frames)| program.alloc_under(*name, frames, MIB));
        program.mark("END", phase);
    }
    fs::write(reserved.path().join("after.pkl"), program.snapshot()).unwrap();
    reserved.write("ptmem.toml", accepted);
    let limit = "phase-reserved:e=0";
    assert_reads!(judged(verdict(&reserved.ptmem(&["--git", "main", "--max-growth", limit]))) => str!["1: FAIL reserved in phase e grew 2.00 MiB (+0.05 %), allowed 0 B"]);
}

/// A phase that allocates more MiB of the edited line each time, beside a segment of this size.
fn reserving(times: [(u64, u64); 2]) -> Vec<u8> {
    let mut program = Program::default();
    for (time, (mib, reserved)) in times.into_iter().enumerate() {
        let names: Vec<String> = (0..mib).map(|at| format!("{time}.{at}")).collect();
        let now = program.tick();
        program.events.push(event("segment_alloc", B, reserved * MIB).with("time_us", now));
        program.mark("START", "e");
        names.iter().for_each(|name| program.alloc_under(name, EDITED, MIB));
        names.iter().for_each(|name| program.free(name));
        program.mark("END", "e");
        let now = program.tick();
        program.events.push(event("segment_free", B, reserved * MIB).with("time_us", now));
    }
    program.snapshot()
}

/// The second time gained more reserved bytes, from more, and more allocated ones, from fewer.
#[test]
fn a_limit_in_percent_on_reserved_bytes_is_about_an_occurrence_with_a_cause() {
    let checkout = edited("+x1", "+x1");
    fs::write(checkout.path().join("before.pkl"), reserving([(2, 2), (1, 4000)])).unwrap();
    fs::write(checkout.path().join("after.pkl"), reserving([(5, 5), (5, 4004)])).unwrap();
    checkout.write(
        "ptmem.toml",
        "[[accept]]\nthrough = 'h = wider(x)'\nbytes = '9MiB'\nreason = 'r'\nexpires = 2999-12-31\n",
    );
    let output = checkout.ptmem(&["--git", "main", "--max-growth", "phase-reserved:e=0.06%"]);
    assert_reads!(judged(verdict(&output)) => str!["0: PASS reserved in phase e #0 grew 3.00 MiB (+0.07 %), allowed 0.06 % (554.19 KiB accepted until 2999-12-31: r), but peak grew 3.00 MiB (+150.0 %)"]);
}

#[test]
fn a_pass_that_begins_elsewhere_in_the_same_events_is_not_said_to_have_grown() {
    let story = "[e +y9 -y9 ]e +x2 +x3 +x4 +x5 -x3 -x4 -x5 +m1 +y1 +z1 -y1 -m1 -x2 -z1";
    let moved = story.replace("x2", "m2");
    // With one event more, the border may be where it was.
    let mut lines = Vec::new();
    for after in [&moved, &moved.replace("+y1", "+y1 +y2")] {
        let report = text(&edited(story, after).ptmem(&["--max-growth", "phase=0"]).stdout);
        lines.extend(report.lines().filter(|line| line.contains("found by call stacks")).map(str::to_owned));
    }
    assert_reads!(lines.join("\n") => str!["The pass forward, found by call stacks, grew 2.00 MiB: a limit on phase:forward would gate it"]);
}

/// What a report says in the end of reserved memory that grew by some MiB, where the peak grew by one through an edit.
fn reserved_more(mib: u64) -> String {
    let checkout = edited("+x1 +y1", "+x1 +y1");
    let mut program = Program::default();
    program.reserved = 4096 + mib;
    ["x1", "x2"].iter().for_each(|name| program.alloc_under(*name, EDITED, MIB));
    program.alloc_under("y1", LOSS, MIB);
    fs::write(checkout.path().join("after.pkl"), program.snapshot()).unwrap();
    let report = text(&checkout.ptmem(&["--git", "main", "--max-growth", "reserved=0"]).stdout);
    report[report.find("  [[accept]]").unwrap()..].to_owned()
}

#[test]
fn the_edit_of_the_peak_explains_other_figures_if_the_peak_has_most_of_the_growth() {
    assert_reads!(reserved_more(2) => str![[r#"
  [[accept]]
  through = "h = wider(x)"
  bytes = "2MiB" # reserved: +2.00 MiB, allowed 0 B
  reason = "why it is worth it"
  expires = [..]

All of the growth at the peak passes through m.py:4, where this change writes `h = wider(x)`. Largest: forward (m.py:4) (more allocations).
FAIL reserved grew 2.00 MiB (+0.05 %), allowed 0 B
left out: 6 metrics, 1 note (-v shows them)
"#]]);
    assert_reads!(reserved_more(3) => str![[r#"
  [[accept]]
  metric = "reserved"
  bytes = "3MiB" # reserved: +3.00 MiB, allowed 0 B
  reason = "why it is worth it"
  expires = [..]

FAIL reserved grew 3.00 MiB (+0.07 %), allowed 0 B
left out: 6 metrics, 1 note (-v shows them)
"#]]);
}

#[test]
fn a_single_edit_leads_by_inference_and_one_of_two_does_not() {
    let checkout = edited("+y1 +y2 +y3 +z1", "+y1 +y2 +y3 +z1 +z2 +z3");
    let limits = ["--git", "main", "--max-growth", "0", "--max-growth", "stack=0"];
    let output = checkout.ptmem(&limits);
    let only = "No stack of the growth at the peak leads to an edit; none of it has a Python stack. The only edit of the change \
                that can matter is m.py:4 (now `h = wider(x)`) (inferred).";
    let report = text(&output.stdout);
    assert_eq!(explanation(&report), only);
    let line = verdict(&output).1;
    assert!(line.starts_with("FAIL peak grew 2.00 MiB (+50.0 %), allowed 0 B, most by "), "{line}");
    assert!(report.contains("through = \"h = wider(x)\"") && !report.contains("leads to edit"), "{report}");

    // A part without Python frames is said.
    let part = edited("+x1 +y1 +y2 +z1", "+x1 +x2 +y1 +y2 +z1 +z2 +z3");
    let lead = cause(&part, "0")["lead"].as_str().unwrap().to_owned();
    assert_reads!(lead => str!["33 % of the growth at the peak (1.00 MiB of 3.00 MiB) passes through m.py:4, where this change writes `h = wider(x)`; 2.00 MiB of 3.00 MiB have no Python stack. The change has no other edit that can matter (inferred). Largest: forward (m.py:4) (more allocations)."]);

    // Nor does it lead where one side recorded more than the other.
    let longer = edited("+z1 -z1", &format!("{}+z1 +z2", "+y1 -y1 ".repeat(60)));
    assert!(!cause(&longer, "0")["lead"].as_str().unwrap().contains("inferred"));

    // A test that did not run cannot matter, another module can.
    checkout.write("tests/test_m.py", "def test():\n    assert f(2)\n");
    let lead_now = || explanation(&text(&checkout.ptmem(&limits).stdout));
    assert_eq!(lead_now(), only);
    checkout.write("other.py", "x = 1\n");
    assert_reads!(lead_now() => str!["Stacks lead from less than half of the growth at the peak to one edit; none of it has a Python stack. Edits that can matter: m.py:4 (now `h = wider(x)`); other.py:1 (added `x = 1`); tests/test_m.py:1 (added `def test():`)."]);

    // A file that was not read may have one that can.
    fs::remove_file(checkout.path().join("other.py")).unwrap();
    for at in 0..20 {
        checkout.write(&format!("tests/test_{at}.py"), format!("x = 1  # {}\n", "y".repeat(900)).repeat(1_000));
    }
    let lead = lead_now();
    assert!(
        lead.ends_with(" 6 changed files were not read: the change is large.") && !lead.contains("inferred"),
        "{lead}"
    );
}

#[test]
fn growth_that_exceeds_that_of_the_peak_is_said_with_what_shrank() {
    let checkout = edited("+y1 +y2 +z1 +x1", "+y1 +x1 +x2 +x3 +x4");
    let output = checkout.ptmem(&["--git", "main", "--max-growth", "0"]);
    let lead = explanation(&text(&output.stdout));
    assert_reads!(lead => str!["All of the growth at the peak (3.00 MiB; other stacks shrank by 2.00 MiB) passes through m.py:4, where this change writes `h = wider(x)`. Largest: forward (m.py:4) (more allocations)."]);
    assert_reads!(verdict(&output).1 => str!["FAIL peak grew 1.00 MiB (+25.0 %), allowed 0 B, most by forward (m.py:4) (+3.00 MiB, others -2.00 MiB)"]);
    // The before has its peak later, with what is not there yet at the place of the after's peak.
    let elsewhere = edited("+x1 +y1 +y2 +z1", "+x1 +x2 +x3 +x4 +y1");
    let lead = cause(&elsewhere, "0")["lead"].as_str().unwrap().to_owned();
    assert_reads!(lead => str!["All of the growth at the peak (3.00 MiB; the before held 2.00 MiB more at its peak) passes through m.py:4, where this change writes `h = wider(x)`. Largest: forward (m.py:4) (more allocations)."]);
}

#[test]
fn growth_passes_through_the_lines_of_a_block_whose_head_is_new() {
    let checkout = Checkout::new("m.py");
    let (head, body) = BEFORE.split_at(BEFORE.find("    h =").unwrap());
    let (block, tail) = body.split_at(body.find("    z =").unwrap());
    checkout.write("m.py", format!("{head}    with wide():\n{}\n{tail}", block.trim_end().replace("    ", "        ")));
    checkout.commit("wide");
    checkout.record(&[(&["/ci/m.py:forward:4"], 2)], &[(&["/ci/m.py:forward:5"], 4)]);
    assert_reads!(explanation(&text(&checkout.ptmem(&["--git", "main", "--max-growth", "0"]).stdout)) => str!["All of the growth at the peak passes through m.py:5, where this change adds `with wide():`. Largest: forward (m.py:5) (more allocations)."]);
}

/// A change of three statements in a row, and of a number, where one allocation grows at each of these lines.
fn three_statements(lines: &[(&[&str], u64)]) -> (Checkout, Value) {
    let checkout = Checkout::new("m.py");
    let text = BEFORE.replace("h = layer(x)", "h = layer(x)\n    n = h.sum()\n    k = pool(n)");
    checkout.write("m.py", &text);
    commit_base(&checkout);
    let text = text.replace("layer(x)", "wider(x)").replace("h.sum()", "h.mean()").replace("pool(n)", "pool(n, 2)");
    checkout.write("m.py", format!("{text}best = float(\"inf\")\n"));
    let before: Vec<(&[&str], u64)> = lines.iter().map(|&(frames, _)| (frames, 2)).collect();
    checkout.record(&before, lines);
    let cause = cause(&checkout, "0");
    (checkout, cause)
}

#[test]
fn the_statement_is_quoted_that_the_stacks_pass_through() {
    let fifth: &[&str] = &["/ci/m.py:forward:5"];
    let (checkout, cause) = three_statements(&[(fifth, 5)]);
    let lead = cause["lead"].as_str().unwrap();
    let said = "All of the growth at the peak passes through m.py:5, where this change writes `n = h.mean()`. Largest: \
                forward (m.py:5) (more allocations).";
    assert_eq!(lead, said, "a number cannot matter beside it");
    assert_eq!((&cause["edits"][0]["line"], &cause["others"]), (&5.into(), &Value::Array(Vec::new())));
    let report = text(&checkout.ptmem(&["--git", "main", "--max-growth", "0"]).stdout);
    assert!(report.contains("through = \"n = h.mean()\""), "{report}");
    // An agreement may name any statement of the edit.
    let accepted = "[[accept]]\nthrough = 'k = pool(n, 2)'\nbytes = '3MiB'\nreason = 'r'\nexpires = 2999-12-31\n";
    checkout.write("ptmem.toml", accepted);
    assert_eq!(checkout.ptmem(&["--git", "main", "--max-growth", "0"]).status.code(), Some(0));

    // At the peak, another one grew.
    for (name, count) in [("before.pkl", 1), ("after.pkl", 2)] {
        let mut program = Program::default();
        (0..count).for_each(|at| program.alloc_under(format!("x{at}"), EDITED, MIB));
        (0..9).for_each(|at| program.alloc_under(format!("y{at}"), LOSS, MIB));
        (0..9).for_each(|at| program.free(&format!("y{at}")));
        (0..count).for_each(|at| program.free(&format!("x{at}")));
        program.mark("START", "e");
        (0..count).for_each(|at| program.alloc_under(format!("z{at}"), fifth, MIB));
        program.mark("END", "e");
        fs::write(checkout.path().join(name), program.snapshot()).unwrap();
    }
    let limited =
        |limits: &[&str]| text(&checkout.ptmem(&[&["--git", "main", "--config", "none"], limits].concat()).stdout);
    let report = limited(&["--max-growth", "phase=0"]);
    assert!(report.contains("through = \"n = h.mean()\""), "{report}");
    // Checks whose growth passes through other statements are no group.
    let report = limited(&["--max-growth", "0", "--max-growth", "phase=0"]);
    assert!(report.contains("passes through m.py:4") && !report.contains("put down to"), "{report}");

    let (_, cause) = three_statements(&[(&["/ci/m.py:forward:4"], 3), (fifth, 5)]);
    let lead = cause["lead"].as_str().unwrap();
    assert_reads!(lead => str!["All of the growth at the peak passes through m.py:5, where this change writes `n = h.mean()`, or through 1 other line of this edit. Largest: forward (m.py:5) (more allocations)."]);
}

#[test]
fn an_edit_is_of_the_function_of_the_statement_that_is_shown() {
    let checkout = Checkout::new("m.py");
    let methods = "    def __init__(self):\n        self.n = 1\n\n    def forward(self, x):\n        return wide(x)\n";
    checkout.write("m.py", format!("{BEFORE}\nclass Block:\n{methods}"));
    checkout.commit("block");
    checkout.record(&[(EDITED, 2)], &[(EDITED, 2), (&["/ci/m.py:forward:19", "/ci/train.py:step:7"], 4)]);
    let edit = cause(&checkout, "0")["edits"][0].take();
    assert_eq!((&edit["line"], &edit["scope"]), (&19.into(), &"Block.forward".into()));
    for named in ["Block.forward", "Block.__init__", "Block"] {
        let accepted = "bytes = '4MiB'\nreason = 'r'\nexpires = 2999-12-31\n";
        checkout.write("ptmem.toml", format!("[[accept]]\nthrough = '{named}'\n{accepted}"));
        assert_eq!(checkout.ptmem(&["--git", "main", "--max-growth", "0"]).status.code(), Some(0), "{named}");
    }
}

#[test]
fn blocks_are_kept_by_the_function_that_allocates_next_to_most_of_their_frees() {
    let kept = |before: &str| {
        let checkout = edited(before, &before.replace(" -y1", "").replace(" -y2", "").replace(" -y3", ""));
        let lead = cause(&checkout, "0")["lead"].as_str().unwrap().to_owned();
        lead.contains("is in blocks that the before frees sooner, mostly next to allocations of forward, where")
    };
    assert!(kept("+y1 -y1 +x1 +y2 -y2 +x2 +y3 -y3 +z3"));
    assert!(!kept("+y1 -y1 +x1 +y2 -y2 +z2 +y3 -y3 +z3"), "of three frees, one is next to its allocations");
}

#[test]
fn of_two_edits_the_one_that_puts_something_somewhere_keeps_it() {
    let checkout = edited("+x1 -x1 +y1", "+x1 +y1 -x1");
    let keeping =
        BEFORE.replace("\n\n    y", "\n    seen = {}\n    y").replace("    return", "    seen[0] = h\n    return");
    checkout.write("m.py", keeping);
    assert_reads!(cause(&checkout, "0")["lead"].as_str().unwrap() => str!["All of the growth at the peak is in blocks that the before frees sooner, mostly next to allocations of forward, where this change adds `seen[0] = h` (m.py:12; inferred). Largest: forward (m.py:4) (freed before, now kept longer). The change has other edits that can matter: m.py:5 (added `seen = {}`)."]);
}

/// The lead where a change replaces texts of the function.
fn lead_of(changes: &[(&str, &str)], [before, after]: [&str; 2]) -> String {
    let checkout = edited(before, after);
    let mut code = BEFORE.to_owned();
    for (old, new) in changes {
        assert!(code.contains(old), "{old}");
        code = code.replace(old, new);
    }
    checkout.write("m.py", code);
    cause(&checkout, "0")["lead"].as_str().unwrap().to_owned()
}

const WIDER: (&str, &str) = ("layer(x)", "wider(x)");

#[test]
fn an_edited_function_does_not_explain_larger_blocks_unless_nothing_else_can() {
    let larger = ["+K1 +y1", "+k1 +y1"];
    assert_reads!(lead_of(&[WIDER], larger) => str!["All of the growth at the peak passes through forward, where this change writes `h = wider(x)` (m.py:4). Largest: forward (m.py:11) (larger allocations)."]);
    assert_reads!(lead_of(&[WIDER, ("return z", "return z * 2")], larger) => str!["Stacks lead from less than half of the growth at the peak to one edit. Edits that can matter: m.py:4 (now `h = wider(x)`); m.py:12 (now `return z * 2`)."]);
}

#[test]
fn an_edit_below_a_line_is_no_reason_for_more_allocations_there() {
    let more = ["+x1 +y1", "+x1 +x2 +y1"];
    assert_reads!(lead_of(&[("torch.cat", "torch.stack"), ("return z", "return z * 2")], more) => str!["Stacks lead from less than half of the growth at the peak to one edit. Edits that can matter: m.py:6 (now `y = torch.stack(`); m.py:12 (now `return z * 2`)."]);
}

#[test]
fn statements_that_hold_nothing_are_no_reason_for_more_allocations() {
    let more = ["+k1 +y1", "+k1 +k2 +y1"];
    assert_reads!(lead_of(&[WIDER, ("\n\n    z", "\n    assert y\n    z")], more) => str!["All of the growth at the peak passes through forward, where this change writes `h = wider(x)` (m.py:4), and makes 1 other edit there. Largest: forward (m.py:11) (more allocations). The change has other edits that can matter: m.py:10 (added `assert y`)."]);
    assert_reads!(lead_of(&[WIDER, ("\n\n    z", "\n    name = 'gate'\n    z")], more) => str!["All of the growth at the peak passes through forward, where this change writes `h = wider(x)` (m.py:4), and makes 1 other edit there. Largest: forward (m.py:11) (more allocations). The change has other edits that can matter: m.py:10 (added `name = 'gate'`)."]);
}

#[test]
fn of_edits_before_a_line_the_one_that_is_there_leads() {
    let checkout = edited("+k1 +y1", "+k1 +k2 +y1");
    let code = |lines: &str| BEFORE.replace("    h = layer(x)\n\n", lines);
    git(checkout.path(), &["checkout", "--quiet", "main"]);
    checkout.write("m.py", code("    t = copy(x)\n    h = layer(x)\n"));
    checkout.commit("copy");
    checkout.write("m.py", code("    h = layer(x, momentum=0.9)\n\n"));
    assert_reads!(cause(&checkout, "0")["lead"].as_str().unwrap() => str!["All of the growth at the peak passes through forward, where this change writes `h = layer(x, momentum=0.9)` (m.py:4), and makes 1 other edit there. Largest: forward (m.py:11) (more allocations). The change has other edits that can matter: m.py:4 (removed `t = copy(x)`)."]);
}

/// The lead where a block is kept which the before frees ahead of the backward pass, after a change that no longer switches
/// gradients off and appends something elsewhere.
fn kept_after(story: &str) -> String {
    let log = "\n\ndef log(h):\n    seen.append(h.item())\n";
    let code = BEFORE.replace("    h = layer(x)\n", "    with torch.no_grad():\n        h = layer(x)\n");
    let checkout = Checkout::new("m.py");
    checkout.write("m.py", code + log);
    commit_base(&checkout);
    checkout.write("m.py", format!("{BEFORE}{log}").replace("h.item()", "h"));
    for (name, line, story) in [("before.pkl", 5, "+x -x +y1 +y2 +z1 -z1 +z2 -z2 -y1 -y2"), ("after.pkl", 4, story)] {
        let mut program = Program::default();
        let edited = format!("/ci/m.py:forward:{line}");
        for word in story.split(' ') {
            let (action, name) = word.split_at(1);
            let frames = match &name[..1] {
                "x" => &[&*edited, MODULE[1], MODULE[2]],
                "y" => &[LOSS[0], MODULE[1], MODULE[2]],
                _ => AUTOGRAD,
            };
            match action {
                "+" => program.alloc_under(name, frames, MIB),
                _ => program.free(name),
            }
        }
        fs::write(checkout.path().join(name), program.snapshot()).unwrap();
    }
    cause(&checkout, "0")["lead"].as_str().unwrap().to_owned()
}

#[test]
fn a_graph_does_not_keep_what_outlasts_its_backward_pass() {
    assert_reads!(kept_after("+x +y1 +y2 +z1 -x -z1 +z2 -z2 -y1 -y2") => str!["All of the growth at the peak passes through m.py:4, where this change removes `with torch.no_grad():`. Largest: forward (m.py:4) (freed inside forward before, now kept until backward; inferred: a graph is now recorded here). The change has other edits that can matter: m.py:16 (now `seen.append(h)`)."]);
    assert_reads!(kept_after("+x +y1 +y2 +z1 -z1 +z2 -z2 -y1 -y2 +y3 -y3 -x") => str!["Stacks lead from less than half of the growth at the peak to one edit. Edits that can matter: m.py:4 (removed `with torch.no_grad():`); m.py:16 (now `seen.append(h)`)."]);
    assert_reads!(kept_after("+x +y1 +y2 +z1 -z1 +z2 -z2 -y1 -y2") => str!["Stacks lead from less than half of the growth at the peak to one edit. Edits that can matter: m.py:4 (removed `with torch.no_grad():`); m.py:16 (now `seen.append(h)`)."]);
}

/// The row of both lines has more blocks.
#[test]
fn a_line_that_allocates_no_more_is_kept_by_an_edit_below_it() {
    let checkout = edited("+x1 +k1 -k1 +k2 -k2 +y1 +y2 +y3", "+x1 +x2 +k1 +k2 +y1 +y2 +y3");
    let keeping = BEFORE.replace("layer(x)", "wider(x)").replace("    return", "    seen[0] = z\n    return");
    checkout.write("m.py", keeping);
    assert_reads!(cause(&checkout, "0")["lead"].as_str().unwrap() => str!["66 % of the growth at the peak (2.00 MiB of 3.00 MiB) passes through forward, where this change adds `seen[0] = z` (m.py:12), and makes 1 other edit there. Largest: forward (m.py:11) (more allocations). The change has other edits that can matter: 33 %: m.py:4 (now `h = wider(x)`)."]);
}

/// The lead where a change edits a function, and adds a statement to the one that calls it: each block that is kept was freed
/// between allocations of the first and of the second.
fn kept_by_one_of_two(statement: &str) -> String {
    let step = "def step(x):\n    h = forward(x)\n\n    l = loss(h)\n    return l\n";
    let base = format!("import torch\n\nseen = []\n\n\n{step}");
    let checkout = Checkout::new("m.py");
    checkout.write("train.py", &base);
    commit_base(&checkout);
    checkout.write("m.py", BEFORE.replace("layer(x)", "wider(x)"));
    checkout.write("train.py", base.replace("    return", &format!("    {statement}\n    return")));
    let before = "+z1 +x1 -z1 +y1 -x1 -y1 +z2 +x2 -z2 +y2 -x2 -y2";
    let after = before.replace(" -z1", "").replace(" -z2", "");
    for (name, story) in [("before.pkl", before), ("after.pkl", &after)] {
        fs::write(checkout.path().join(name), program(story)).unwrap();
    }
    cause(&checkout, "0")["lead"].as_str().unwrap().to_owned()
}

#[test]
fn of_two_functions_the_inner_one_keeps_it_unless_only_the_outer_one_puts_something_somewhere() {
    assert_reads!(kept_by_one_of_two("seen.append(l.item())") => str!["All of the growth at the peak is in blocks that the before frees sooner, mostly next to allocations of forward, where this change writes `h = wider(x)` (m.py:4; inferred). Largest: apply (freed before, now kept until the end of the recording). The change has other edits that can matter: train.py:10 (added `seen.append(l.item())`)."]);
    assert_reads!(kept_by_one_of_two("seen.append(l)") => str!["All of the growth at the peak is in blocks that the before frees sooner, mostly next to allocations of step, where this change adds `seen.append(l)` (train.py:10; inferred). Largest: apply (freed before, now kept until the end of the recording). The change has other edits that can matter: m.py:4 (now `h = wider(x)`)."]);
}

/// An upgrade explains growth without `--git`, too; what else the change edits is not known then.
#[test]
fn growth_through_an_upgraded_package_leads_to_it() {
    let trainer: &[&str] = &[
        "/env/site-packages/models/layers.py:forward:7",
        "/env/site-packages/trainer/loop.py:logits:40",
        "/ci/train.py:main:5",
    ];
    let own: &[&str] = &["/ci/train.py:loss:9", "/ci/train.py:main:6"];
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, version: &str, [of_trainer, of_own]: [u64; 2]| {
        let mut program = Program::default();
        (0..of_trainer).for_each(|at| program.alloc_under(format!("t{at}"), trainer, MIB));
        (0..of_own).for_each(|at| program.alloc_under(format!("o{at}"), own, MIB));
        let facts = serde_json::json!({"format": 1, "versions": [["trainer", version]]});
        let bytes = pickle::write(&program.value().with("ptmem", facts), pickle::Options::default());
        fs::write(folder.path().join(name), bytes).unwrap();
    };
    let report = || text(&ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", "0"]).stdout);
    record("before.pkl", "1.0", [4, 4]);
    record("after.pkl", "2.0", [8, 4]);
    let said = report();
    let lead = "All of the growth at the peak passes through trainer 1.0 → 2.0. Largest: main (train.py:5) > forward \
                (models/layers.py:7) (more allocations).";
    assert!(said.contains(lead), "{said}");
    assert!(said.contains("grew, leads to upgrade") && said.contains("through logits (trainer/loop.py:40)"), "{said}");
    assert!(said.contains("through = \"trainer\""), "{said}");
    // Growth elsewhere is not that of the package.
    record("after.pkl", "2.0", [4, 8]);
    let said = report();
    assert!(said.contains("FAIL") && !said.contains("trainer 1.0"), "{said}");
}

/// Commits what was written as the base of the change.
fn commit_base(checkout: &Checkout) {
    checkout.commit("base");
    checkout.git(&["branch", "--force", "main"]);
}

/// A checkout whose change edits a configuration, with the recordings of both sides.
fn configured(old: &str, new: &str, stories: [&str; 2]) -> Checkout {
    let checkout = Checkout::new("m.py");
    checkout.write("conf.yaml", old);
    checkout.git(&["add", "conf.yaml"]);
    commit_base(&checkout);
    checkout.write("conf.yaml", new);
    for (name, story) in ["before.pkl", "after.pkl"].into_iter().zip(stories) {
        fs::write(checkout.path().join(name), program(story)).unwrap();
    }
    checkout
}

#[test]
fn blocks_that_are_larger_by_a_ratio_lead_to_the_one_number_that_explains_it() {
    // Of two blocks, one is twice as large.
    let stories = ["+X1 +W1", "+x1 +W1"];
    for (old, new, line) in [
        ("n: 1\nkeep: 3\n", "n: 2\nkeep: 4\n", Some(1)),
        // A number that falls explains it, too, unless another one rises.
        ("n: 2\nm: 1\n", "n: 1\nm: 2\n", Some(2)),
        ("n: 2\nkeep: 3\n", "n: 1\nkeep: 4\n", Some(1)),
        ("n: 1\nseed: 7\n", "n: 2\nseed: 14\n", None),
        // Both blocks together are 10/9 times as large, which is not how each grew.
        ("n: 1\nseed: 9\n", "n: 2\nseed: 10\n", Some(1)),
        ("n: 1\nm: 7\nseed: 9\n", "n: 2\nm: 14\nseed: 10\n", None),
    ] {
        let cause = cause(&configured(old, new, stories), "0");
        let found = &cause["edits"][0];
        let led = (found["how"]["ratio"].as_u64(), found["line"].as_u64());
        assert_eq!(led, (line.map(|_| MIB / 2), line), "{new}: {cause:#}");
    }
    // A constant in code that no stack passes through.
    let checkout = configured("", "", stories);
    checkout.write("sizes.py", "LIMIT = 3\n");
    checkout.write("tests/test_sizes.py", "LIMIT = 3\n");
    commit_base(&checkout);
    checkout.write("sizes.py", "LIMIT = 6\n");
    checkout.write("conf.yaml", "other: true\n");
    let lead = cause(&checkout, "0")["lead"].as_str().unwrap().to_owned();
    assert_reads!(lead => str!["All of the growth at the peak is in blocks whose growth fits the numbers at sizes.py:1, where this change writes `LIMIT = 6` (inferred). Largest: forward (m.py:4) (larger allocations). The change has other edits that can matter: conf.yaml:1 (added `other: true`)."]);
    // Nor does a number of a test that did not run explain it.
    checkout.write("tests/test_sizes.py", "LIMIT = 6\n");
    let lead = cause(&checkout, "0")["lead"].as_str().unwrap().to_owned();
    assert_reads!(lead => str!["All of the growth at the peak is in blocks whose growth fits the numbers at sizes.py:1, where this change writes `LIMIT = 6` (inferred). Largest: forward (m.py:4) (larger allocations). The change has other edits that can matter: conf.yaml:1 (added `other: true`); tests/test_sizes.py:1 (now `LIMIT = 6`)."]);
    checkout.write("sizes.py", "LIMIT = 3\n");
    assert_reads!(cause(&checkout, "0")["lead"].as_str().unwrap() => str!["No stack of the growth at the peak leads to an edit. The only edit of the change that can matter is conf.yaml:1 (added `other: true`) (inferred)."]);
}

#[test]
fn as_many_times_as_many_blocks_lead_to_the_one_number_that_explains_it() {
    let stories = ["+x1 +x2 +W1", "+x1 +x2 +x3 +x4 +W1 +W2"];
    let lead = cause(&configured("chunks: 2\n", "chunks: 4\n", stories), "0")["lead"].as_str().unwrap().to_owned();
    assert_reads!(lead => str!["All of the growth at the peak is in blocks whose growth fits the numbers at conf.yaml:1, where this change writes `chunks: 4` (inferred). Largest: forward (m.py:4) (more allocations)."]);
    let stories = ["+x1 +x2 +W1", "+x1 +x2 +x3 +x4 +x5 +W1"];
    let lead = cause(&configured("chunks: 2\n", "chunks: 4\n", stories), "0")["lead"].as_str().unwrap().to_owned();
    assert_reads!(lead => str!["No stack of the growth at the peak leads to an edit. The only edit of the change that can matter is conf.yaml:1 (now `chunks: 4`) (inferred)."]);
    // A second block may be of anything: it shows no ratio.
    let checkout = configured("epochs: 5\n", "epochs: 10\n", ["+x1 +W1", "+x1 +x2 +W1 +W2"]);
    let lead = cause(&checkout, "0")["lead"].as_str().unwrap().to_owned();
    assert_reads!(lead => str!["No stack of the growth at the peak leads to an edit. The only edit of the change that can matter is conf.yaml:1 (now `epochs: 10`) (inferred)."]);
}

#[test]
fn files_that_are_not_read_and_submodules_are_edits_as_a_whole() {
    let checkout = Checkout::new("m.py");
    let submodule = |commit: &str| format!("160000,{},ext", commit.repeat(40));
    checkout.write("libs.zip", [0xff, 1]);
    fs::create_dir(checkout.path().join("ext")).unwrap();
    checkout.git(&["add", "libs.zip"]);
    checkout.git(&["update-index", "--add", "--cacheinfo", &submodule("1")]);
    commit_base(&checkout);
    let step: &[&str] = &["/ci/train.py:step:7"];
    let net: &[&str] = &["/ci/ext/net.py:forward:4", step[0]];
    checkout.record(&[(step, 4), (net, 4)], &[(step, 6), (net, 4)]);
    let lead = || cause(&checkout, "0")["lead"].as_str().unwrap().to_owned();
    // No edit of code is the only one if an archive differs.
    checkout.write("other.py", "x = 1\n");
    let only = "No stack of the growth at the peak leads to an edit. The only edit of the change that can matter is";
    assert_eq!(lead(), format!("{only} other.py:1 (added `x = 1`) (inferred)."));
    checkout.write("libs.zip", [0xff, 2]);
    assert!(lead().ends_with("Edits that can matter: libs.zip (changed); other.py:1 (added `x = 1`)."), "{}", lead());
    fs::remove_file(checkout.path().join("other.py")).unwrap();
    // Documentation and stored profiles do not matter.
    for path in ["README.md", "docs/chart.png", "before.ptmem.json", ".github/job.sh"] {
        checkout.write(path, "x");
        checkout.git(&["add", path]);
    }
    assert_eq!(lead(), format!("{only} libs.zip (changed) (inferred)."));
    // Code of a submodule.
    checkout.git(&["update-index", "--cacheinfo", &submodule("2")]);
    checkout.record(&[(step, 4), (net, 4)], &[(step, 4), (net, 8)]);
    let edit = &cause(&checkout, "0")["edits"][0];
    assert_eq!((&edit["path"], &edit["line"], &edit["kind"]), (&"ext".into(), &Value::Null, &"configuration".into()));
    assert_eq!(edit["how"]["package"], 4 * MIB, "{edit:#}");
    let report = text(&checkout.ptmem(&["--git", "main", "--max-growth", "0"]).stdout);
    assert!(
        report.contains("All of the growth at the peak passes through ext (changed). Largest: forward"),
        "{report}"
    );
    assert!(report.contains("through = \"ext\""), "{report}");
}

#[cfg(unix)]
#[test]
fn a_link_to_another_file_is_an_edit_as_a_whole() {
    let checkout = Checkout::new("m.py");
    let link = |target: &str| {
        let link = checkout.path().join("net.py");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(target, link).unwrap();
    };
    checkout.write("wide.py", BEFORE.replace("layer", "wide"));
    link("m.py");
    commit_base(&checkout);
    link("wide.py");
    let net: &[&str] = &["/ci/net.py:forward:4"];
    checkout.record(&[(net, 4)], &[(net, 8)]);
    assert_reads!(cause(&checkout, "0")["lead"].as_str().unwrap() => str!["All of the growth at the peak passes through net.py (changed). Largest: forward (net.py:4) (more allocations)."]);
}

#[test]
fn an_edit_with_a_small_share_is_named_with_the_others() {
    let checkout = Checkout::new("m.py");
    let text = format!("{BEFORE}\ndef g(x):\n    return 1\n");
    checkout.write("m.py", &text);
    commit_base(&checkout);
    checkout.write("m.py", text.replace("layer(x)", "wider(x)").replace("return 1", "return x"));
    let g: &[&str] = &["/ci/m.py:g:15"];
    for (name, sizes) in [("before.pkl", [200 * MIB, MIB]), ("after.pkl", [400 * MIB, 2 * MIB])] {
        let mut program = Program::default();
        program.alloc_under("x", EDITED, sizes[0]);
        program.alloc_under("g", g, sizes[1]);
        fs::write(checkout.path().join(name), program.snapshot()).unwrap();
    }
    assert_reads!(cause(&checkout, "0")["lead"].as_str().unwrap() => str!["99 % of the growth at the peak (200.00 MiB of 201.00 MiB) passes through m.py:4, where this change writes `h = wider(x)`. Largest: forward (m.py:4) (larger allocations). The change has other edits that can matter: m.py:15 (now `return x`)."]);
}

#[test]
fn growth_passes_through_statements_that_use_a_name_imported_from_elsewhere() {
    let checkout = Checkout::new("m.py");
    let text = "from models.small import Net\n\ndef main():\n    rate = 0.1\n    net = Net()\n    net.run()\n";
    checkout.write("main.py", text);
    commit_base(&checkout);
    checkout.write("main.py", text.replace("small", "large").replace("0.1", "0.2"));
    let net = |size: &'static str| [size, "/ci/main.py:main:5"];
    checkout.record(&[(&net("/ci/models/small.py:__init__:3"), 2)], &[(&net("/ci/models/large.py:__init__:3"), 4)]);
    assert_reads!(cause(&checkout, "0")["lead"].as_str().unwrap() => str!["All of the growth at the peak passes through main.py:5, which uses a name that this change imports from elsewhere: it adds `from models.large import Net` (main.py:1). Largest: __init__ (models/large.py:3) (more allocations). The change has other edits that can matter: main.py:4 (now `rate = 0.2`)."]);
}

/// How the blocks that are twice as large lead to an edit.
fn guess(checkout: &Checkout) -> Value {
    cause(checkout, "0")["edits"][0]["how"].take()
}

#[test]
fn a_number_that_fits_is_a_better_guess_than_an_edited_function() {
    let checkout = configured("n: 1\n", "n: 1\n", ["+X1 +W1", "+x1 +W1"]);
    checkout.write("sizes.py", "LIMIT = 3\n");
    commit_base(&checkout);
    checkout.write("sizes.py", "LIMIT = 6\n");
    assert_eq!(guess(&checkout)["ratio"], MIB / 2);
    checkout.write("m.py", BEFORE.replace("relu", "gelu"));
    assert_eq!(guess(&checkout)["ratio"], MIB / 2);
    checkout.write("sizes.py", "LIMIT = 3\n");
    checkout.write("conf.yaml", "n: 2\n");
    assert_eq!(guess(&checkout)["ratio"], MIB / 2);
}

#[test]
fn a_row_leads_to_an_edit_where_it_is_listed() {
    // Each block is twice as large at the end, and there are more of them at the peak.
    let checkout = configured("n: 1\n", "n: 2\n", ["+X1 +y1 -y1", "+x1 +x2 +y1 -y1 -x2"]);
    let report = text(&checkout.ptmem(&["--git", "main", "--max-growth", "0"]).stdout);
    let none = "No stack of the growth at the peak leads to an edit";
    assert!(report.contains(none) && !report.contains("leads to edit"), "{report}");
}

#[test]
fn a_function_that_moves_to_another_file_is_no_edit() {
    let checkout = edited("+x1 +y1", "+x1 +x2 +y1");
    let (head, function) = BEFORE.split_at(BEFORE.find("def").unwrap());
    checkout.write("m.py", format!("{head}from n import forward\n"));
    checkout
        .write("n.py", format!("\"\"\"Layers.\"\"\"\n\nimport torch\n\n\ndef other():\n    return 1\n\n\n{function}"));
    let mut program = Program::default();
    for name in ["x1", "x2", "y1"] {
        program.alloc_under(name, &["/ci/n.py:forward:10", "/ci/train.py:step:7"], MIB);
    }
    fs::write(checkout.path().join("after.pkl"), program.snapshot()).unwrap();
    let cause = cause(&checkout, "0");
    // Growth through it is not its growth: what is left is the other function of the new file.
    assert_eq!(cause["edits"], Value::Array(Vec::new()), "{cause:#}");
    assert_eq!(cause["others"][0]["added"], "def other():", "{cause:#}");
}

/// The report of a bisection that ends with a change to this code, and a recording without its edit as the story has it.
fn bisected(code: &str, story: &str) -> String {
    let checkout = Checkout::new("m.py");
    checkout.write("m.py", code);
    checkout.write("other.py", "x = 1\n");
    checkout.commit("wider");
    for (name, story) in [("before.pkl", "+y1 +x1"), ("after.pkl", "+y1 +x1 +x2")] {
        fs::write(checkout.path().join(name), program(story)).unwrap();
    }
    let story = story.replace("cp ", &format!("cp {}/", checkout.path().display())).replace(" it", " $PTMEM_SNAPSHOT");
    let mut command = checkout.command();
    command.env("XDG_CACHE_HOME", checkout.path().join(".git/cache"));
    command.args(["bisect", "main..change", "--max-growth", "0", "--steps", "none", "--", "sh", "-c", &story]);
    let output = command.output().unwrap();
    let report = text(&output.stdout);
    // Nobody can mend a program with one edit of several taken back.
    assert!(!report.contains("exit code 7"), "{report}");
    assert_eq!(output.status.code(), Some(1), "{report}\n{}", text(&output.stderr));
    report
}

#[test]
fn a_bisection_proves_the_edit_by_a_recording_without_it() {
    let wider = BEFORE.replace("layer(x)", "wider(x)");
    let needing = format!("{wider}\n\nneeds = 1\n");
    let beside = BEFORE.replace("h = layer(x)", "h = wider(x)\n    n = 1");
    let grows = |condition: &str| format!("{condition} && exec cp after.pkl it; cp before.pkl it");
    let file = "an edit of this file causes the regression";
    for (code, story, without, shown) in [
        (
            &wider,
            grows("grep -q wider m.py"),
            "the edit at m.py:4",
            "it is within the limits: this edit causes the regression",
        ),
        (
            &wider,
            grows("test -e other.py"),
            "the edit at m.py:4",
            "it exceeds the limits, too: another edit makes memory grow",
        ),
        (
            &wider,
            format!("test -e other.py && ! grep -q wider m.py && exit 7; {}", grows("test -e other.py")),
            "the edit at m.py:4",
            "it cannot be recorded, so the cause is not proven",
        ),
        (
            &needing,
            format!("grep -q needs m.py && ! grep -q wider m.py && exit 7; {}", grows("grep -q wider m.py")),
            "any edit of its file, because the command fails without the one at m.py:4 alone",
            &format!("it is within the limits: {file}"),
        ),
        (
            &beside,
            grows("grep -q wider m.py"),
            "any edit of its file, because others are next to the one at m.py:4",
            &format!("it is within the limits: {file}"),
        ),
    ] {
        let report = bisected(code, &story);
        let found = format!("recorded without {without}, {shown}");
        assert!(report.contains(&found), "{report}");
    }
}

/// The report and the notes of a bisection whose answer changes one file, from the first content to the second, and grows by that.
fn bisected_file(name: &str, contents: [&[u8]; 2]) -> String {
    let checkout = Checkout::new("m.py");
    for content in contents {
        checkout.write(name, content);
        checkout.git(&["add", name]);
        checkout.git(&["branch", "--force", "main"]);
        checkout.commit("libraries");
    }
    for (name, story) in [("before.pkl", "+y1 +y2"), ("after.pkl", "+y1 +y2 +y3")] {
        fs::write(checkout.path().join(name), program(story)).unwrap();
    }
    let [before, after] = ["before.pkl", "after.pkl"].map(|name| checkout.path().join(name).display().to_string());
    let story = format!("grep -q new {name} && exec cp {after} $PTMEM_SNAPSHOT; cp {before} $PTMEM_SNAPSHOT");
    let mut command = checkout.command();
    command.env("XDG_CACHE_HOME", checkout.path().join(".git/cache"));
    command.args(["bisect", "main..change", "--max-growth", "0", "--steps", "none", "--", "sh", "-c", &story]);
    let output = command.output().unwrap();
    let report = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{report}");
    report
}

/// An archive is not text that could be put back: nothing is recorded without it, and no note says so.
#[test]
fn a_bisection_ends_with_an_edit_that_is_an_archive() {
    let report = bisected_file("libs.zip", [b"\xff old", b"\xff new"]);
    assert!(report.contains("libs.zip (changed) (inferred)") && !report.contains(" without "), "{report}");
}

#[test]
fn a_bisection_proves_an_edit_that_is_a_file_as_a_whole() {
    let report = bisected_file("size.csv", [b"old\n", b"new\n"]);
    let expected = "; recorded without the edit of size.csv, it is within the limits: this edit causes the regression";
    assert!(report.contains(expected), "{report}");
    assert!(report.contains(" without the edit of size.csv\n"), "{report}");
}

/// A block of the edited line in a segment of its own, which the allocator splits only where the rest is large.
fn block_in_segment(requested: u64, whole: u64) -> Vec<u8> {
    let frame = |text: &&str| {
        let [line, name, filename] = text.rsplitn(3, ':').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let line: u64 = line.parse().unwrap();
        Pickled::dict([("name", name.into()), ("filename", filename.into()), ("line", line.into())])
    };
    let stack = Pickled::List(EDITED.iter().map(frame).collect());
    let is_split = whole - requested > MIB;
    let size = if is_split { requested } else { whole };
    let used = Pickled::dict([
        ("address", A.into()),
        ("size", size.into()),
        ("requested_size", requested.into()),
        ("state", "active_allocated".into()),
        ("frames", stack.clone()),
    ]);
    let free = Pickled::dict([
        ("address", (A + size).into()),
        ("size", (whole - size).into()),
        ("requested_size", 0.into()),
        ("state", "inactive".into()),
        ("frames", Pickled::List(vec![])),
    ]);
    let blocks: Vec<Pickled> = [used].into_iter().chain(is_split.then_some(free)).collect();
    let segment = segment(A, &[(whole, true)]).with("blocks", blocks);
    let events = vec![event("segment_alloc", A, whole), event("alloc", A, requested).with("frames", stack)];
    file(vec![segment], events)
}

#[test]
fn slack_of_the_allocator_leads_to_no_edit() {
    let checkout = edited("+x1", "+x1");
    let requested = 11 * MIB + MIB / 2;
    for (name, whole) in [("before.pkl", 40 * MIB), ("after.pkl", 12 * MIB)] {
        fs::write(checkout.path().join(name), block_in_segment(requested, whole)).unwrap();
    }
    let limits = ["--git", "main", "--max-growth", "0", "--min-delta", "0", "--all", "-v"];
    let report = text(&checkout.ptmem(&limits).stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("slack of the allocator: larger blocks, and no more was requested"), "{report}");
    assert!(report.contains("requested bytes did not grow: probably slack in the blocks of the allocator"), "{report}");
    assert!(!report.contains("leads to edit") && !report.contains("only edit"), "{report}");
    let cause = cause(&checkout, "0");
    assert_eq!((&cause["grown"], &cause["no_edit"]), (&(MIB / 2).into(), &(MIB / 2).into()), "{cause:#}");
    // It passes limits on what stacks hold at the peak, and the sentence does not say that none grew.
    let line = |limit| judged(verdict(&checkout.ptmem(&["--max-growth", limit, "--min-delta", "0"])));
    assert_reads!(line("stack=0") => str!["0: PASS no stack grew by more than 0 B, except by slack in the blocks of the allocator"]);
    assert_reads!(line("stack=1MiB") => str!["0: PASS no stack grew by more than 1.00 MiB"]);
    assert_reads!(line("stack-highest=0") => str!["1: FAIL the most held by stack forward (m.py:4) grew 512.00 KiB (+4.3 %), allowed 0 B"]);
}

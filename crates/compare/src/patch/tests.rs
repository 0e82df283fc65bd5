//! Tests of the edits that are found.

use ptmem_base::sides::{Side, Sides};

use super::{Edit, MOST_EDITS, Patch};

fn edits(old: &str, new: &str) -> Vec<String> {
    let paths = Sides { before: Some("m.py"), after: Some("m.py") };
    let mut patch = Patch::default();
    patch.add(paths, Sides { before: old, after: new });
    patch.leave_out_moved();
    let words = |edit: &Edit| {
        let (sign, _, line, text) = edit.shown().unwrap();
        format!("{sign}{line} {text} in {}", edit.scope.as_deref().unwrap_or("<module>"))
    };
    patch.edits.iter().map(words).collect()
}

const CODE: &str = "import torch\n\n@torch.no_grad()\ndef f(model, x):\n    with torch.no_grad():\n        out = model(x)\n        keep(out)\n    return out\n";

#[test]
fn edits_have_the_function_that_they_touch() {
    assert_eq!(edits(CODE, &CODE.replace("@torch.no_grad()\n", "")), ["-3 @torch.no_grad() in f"]);
    let dedented = CODE.replace("    with torch.no_grad():\n", "").replace("        ", "    ");
    assert_eq!(edits(CODE, &dedented), ["-5 with torch.no_grad(): in f"]);
    assert_eq!(edits(CODE, &CODE.replace("model(x)", "model(x).double()")), ["+6 out = model(x).double() in f"]);
    assert_eq!(edits(CODE, &format!("{CODE}f(1, 2)\n")), ["+9 f(1, 2) in <module>"]);
}

#[test]
fn comments_formatting_renames_and_moves_are_no_edits() {
    for new in [
        CODE.replace("out", "logits"),
        CODE.replace("model(x)", "model(\n            x,\n        )  # the model"),
        CODE.replace("    with", "    \"\"\"Of it.\"\"\"\n    with"),
        format!("\u{feff}{}", CODE.replace('\n', "\r\n")),
    ] {
        assert_eq!(edits(CODE, &new), [""; 0], "{new}");
    }
    let two = format!("def g():\n    return 1\n\n{CODE}");
    let moved = format!("{CODE}\ndef g():\n    return 1\n");
    assert_eq!(edits(&two, &moved), [""; 0]);
    // Only of definitions the order does not matter.
    let method = format!("async {}", &two[..two.find("import").unwrap()]);
    assert_eq!(edits(&format!("{method}{CODE}"), &format!("{CODE}\n{method}")), [""; 0]);
    let block = "async with a:\n    f()\n";
    assert_ne!(edits(&format!("{block}{CODE}"), &format!("{CODE}{block}")), [""; 0]);
    // Another function of the same shape is not a new name of this one.
    assert_eq!(edits("x = nn.ReLU()\n", "x = nn.GELU()\n"), ["+1 x = nn.GELU() in <module>"]);
    assert_eq!(edits("x = 1\ny = 2\nf(x)\n", "x = 1\ny = 2\nf(y)\n"), ["+3 f(y) in <module>"]);
}

#[test]
fn a_decorator_moves_with_its_function_alone() {
    let plain = |name: &str| format!("def {name}(x):\n    return {name}_of(x)\n\n\n");
    let decorated = |name: &str| format!("@torch.no_grad()\n{}", plain(name));
    let two = [decorated("f"), plain("g")].concat();
    let moved = ["-1 @torch.no_grad() in f", "+5 @torch.no_grad() in g"];
    assert_eq!(edits(&two, &[plain("f"), decorated("g")].concat()), moved);
    // Each function has its own of three equal decorators.
    let three = ["f", "g", "h"].map(decorated).concat();
    assert_eq!(edits(&three, &["g", "h", "f"].map(decorated).concat()), [""; 0]);
    assert_eq!(edits(&["f", "h"].map(decorated).concat(), &three), ["+7 def g(x): in g"]);
    let both = |name: &str| format!("@once\n{}", decorated(name));
    assert_eq!(edits(&both("h"), &["g", "h"].map(both).concat()), ["+3 def g(x): in g"]);
}

#[test]
fn edits_next_to_each_other_are_told_apart() {
    let renamed = CODE.replace("@torch.no_grad()\n", "").replace("f(", "g(").replace("out", "logits");
    assert_eq!(edits(CODE, &renamed), ["-3 @torch.no_grad() in f"]);
    let dedented = CODE.replace("    with torch.no_grad():\n", "").replace("        ", "    ");
    let edited = dedented.replace("model(x)", "model(x).double()");
    // The other statement of the block differs by its indent alone, which is not an edit.
    let two = ["-5 with torch.no_grad(): in f", "+5 out = model(x).double() in f"];
    assert_eq!(edits(CODE, &edited), two);
    assert_eq!(edits(&edited, CODE), ["+5 with torch.no_grad(): in f", "+6 out = model(x) in f"]);
    let kept = CODE.replace("keep(out)", "keep(out, x)\n        log = x.mean()");
    assert_eq!(edits(CODE, &kept), ["+7 keep(out, x) in f", "+8 log = x.mean() in f"]);
    // None of the statements begins as before.
    assert_eq!(edits("a = 1\nb = 2\n", "f(2)\nc = a\nd = 1\n"), ["+1 f(2) in <module>"]);
}

/// The statements of each edit, by their first lines: its own, and then those whose block changes.
fn statements(old: &str, new: &str) -> Vec<Sides<Vec<u32>>> {
    let mut patch = Patch::default();
    patch.add(Sides { before: Some("m.py"), after: Some("m.py") }, Sides { before: old, after: new });
    let lines = |edit: &Edit| edit.statements.map(|all| all.iter().map(|of| *of.lines.start()).collect());
    patch.edits.iter().map(lines).collect()
}

#[test]
fn a_block_that_replaces_an_import_has_its_statements() {
    let imported = CODE.replace("    with torch.no_grad():\n", "    import gc\n").replace("        ", "    ");
    let import = |lines: [&[u32]; 2]| Sides { before: lines[0].to_vec(), after: lines[1].to_vec() };
    let added = [import([&[5], &[]]), import([&[6, 7], &[5, 6, 7]])];
    assert_eq!(statements(&imported, CODE), added);
    let removed = [import([&[5, 6, 7], &[6, 7]]), import([&[], &[5]])];
    assert_eq!(statements(CODE, &imported), removed);
}

#[test]
fn a_function_with_another_name_has_its_edits() {
    let renamed = CODE.replace("f(", "g(");
    for new in [renamed.replace("@torch.no_grad()\n", ""), renamed.replace("        keep(out)\n", "")] {
        let mut patch = Patch::default();
        patch.add(Sides { before: Some("m.py"), after: Some("m.py") }, Sides { before: CODE, after: &new });
        let bodies: Vec<_> = patch.edits.iter().map(|edit| edit.body.clone()).collect();
        assert_eq!(bodies, [Sides { before: Some(3..=8), after: Some(3..=7) }], "{new}");
    }
    // A function that is gone has none.
    let two = format!("{CODE}\n\ndef h():\n    return 1\n");
    let mut patch = Patch::default();
    patch.add(Sides { before: Some("m.py"), after: Some("m.py") }, Sides { before: &two, after: CODE });
    assert_eq!(patch.edits[0].body.after, None);
}

#[test]
fn a_rename_is_one_to_one() {
    let reused = "def f(x):\n    h = one(x)\n    h = two(h)\n    return h\n";
    let kept = "def f(x):\n    a = one(x)\n    b = two(a)\n    return b\n";
    let once = "def f(x):\n    y = one(x)\n    return two(y)\n";
    assert_eq!(edits(reused, kept), ["+2 a = one(x) in f"]);
    assert_eq!(edits(kept, reused), ["+2 h = one(x) in f"]);
    // Another function has a variable of its own.
    let [two, renamed] = [["h", "h"], ["a", "b"]]
        .map(|names| names.map(|name| once.replace('y', name)).join("\n").replacen("f(x)", "g(x)", 1));
    assert_eq!(edits(&two, &renamed), [""; 0]);
    // So has another class.
    let classes =
        |names: [&str; 2]| names.map(|name| format!("class C:\n    def {name}(self):\n        pass\n")).concat();
    assert_eq!(edits(&classes(["run", "run"]), &classes(["train", "test"])), [""; 0]);
}

/// The edits of a file that can matter, given those of another one.
fn mattering(texts: [&str; 2], others: [(&str, &str); 2]) -> Vec<String> {
    let mut patch = Patch::default();
    let paths = Sides { before: Some("m.py"), after: Some("m.py") };
    patch.add(paths, Sides { before: texts[0], after: texts[1] });
    let [before, after] = others;
    patch.add(Sides { before: Some(before.0), after: Some(after.0) }, Sides { before: before.1, after: after.1 });
    patch.leave_out_moved();
    patch.edits.iter().filter(|edit| edit.can_matter()).map(Edit::place).collect()
}

#[test]
fn an_import_can_matter_that_takes_a_name_from_elsewhere() {
    let none = [("n.py", ""); 2];
    let renamed = [("small.py", ""), ("large.py", "")];
    for (old, new, others, matters) in [
        ("from a.small import N\n", "from a.large import N\n", none, true),
        ("from a.small import M, N\n", "from a.small import M\nfrom .large import (\n    N,\n)\n", none, true),
        ("import a.fast as a\n", "import a.slow as a\n", none, true),
        ("from a import *\n", "from b import *\n", none, true),
        // A new name has no effect by itself.
        ("from a import M\n", "from a import N\n", none, false),
        ("", "import a\nimport b\n", none, false),
        // The same source in other words.
        ("import a.b\n", "import a\n", none, false),
        ("import a.b as c\n", "from a import b as c\n", none, false),
        ("from a.b import N\n", "from .b import N\n", none, false),
        ("from a import M\nfrom a import N\n", "from a import N, M\n", none, false),
        // Its code is elsewhere now.
        ("from a.small import N\n", "from a.large import N\n", renamed, false),
        ("from a import small as s\n", "from . import large as s\n", renamed, false),
        ("from .n import N\n", "from .m import N\n", [("n.py", "class N:\n    pass\n"), ("n.py", "")], true),
    ] {
        let found = mattering([old, new], others);
        assert_eq!(found.iter().any(|place| place.starts_with("m.py")), matters, "{old} | {new} | {found:?}");
    }
    let class = "class N:\n    pass\n";
    let texts = ["from .n import N\n".to_owned(), format!("from .m import N\n{class}")];
    assert_eq!(mattering([&texts[0], &texts[1]], [("n.py", class), ("n.py", "")]), [""; 0]);
}

/// The lines of the statements on both sides that use names which the change imports from elsewhere.
fn uses(old: &str, new: &str) -> [Vec<u32>; 2] {
    let mut patch = Patch::default();
    patch.add(Sides { before: Some("m.py"), after: Some("m.py") }, Sides { before: old, after: new });
    patch.leave_out_moved();
    Side::BOTH.map(|side| {
        let imports = patch.edits.iter().filter(|edit| edit.is_import());
        let uses = imports.flat_map(|edit| edit.statements.of(side)).filter(|used| used.line.is_none());
        uses.map(|used| *used.lines.start()).collect()
    })
}

#[test]
fn an_import_from_elsewhere_changes_the_statements_that_use_its_name() {
    let code = "N(1)\nf(N=1)\nf(\"N\")\nf(x.N)\nN = 1\nf(k=N)\nf(N == 1)\n";
    let [old, new] = ["a", "b"].map(|module| format!("from {module} import N\n{code}"));
    assert_eq!(uses(&old, &new), [[2, 7, 8], [2, 7, 8]]);
    // The names are not known.
    let star = "from a import *\ny = x * 2\nf(**k)\n";
    assert_eq!(uses(star, &format!("from b import *\n{star}")), [[0; 0]; 2]);
    let two = "from a import N\ndef f():\n    N(1)\ndef g():\n    N(2)\n";
    let within = |import: &str| two.replace("    N(2)", &format!("    {import}\n    N(2)"));
    let own = within("from b import N");
    assert_eq!(uses(two, &own), [[5], [6]], "an import within a function");
    assert_eq!(uses(&own, &within("from c import N")), [[6], [6]]);
    assert_eq!(uses(&own, &own.replace("from a", "from c")), [[3], [3]], "and one around it");
    // Another function has no name that one imports.
    assert_eq!(uses(&own.replace("from a import N\n", ""), &own.replace("from a", "from c")), [[0; 0]; 2]);
}

/// Time that grows with the square of the functions would be minutes.
#[test]
fn files_of_many_functions_are_compared() {
    let lines = |name: &str| (0..10_000).map(|i| format!("{name}{i} = g({i})\n")).collect::<String>();
    assert_eq!(edits(&lines("y"), &lines("z")), [""; 0], "each name is another one");
    let old: String = (0..10_000).map(|i| format!("def f{i}(x):\n    y = g(x, {i})\n    return y\n")).collect();
    assert_eq!(edits("", &old).len(), 10_000);
    let mut patch = Patch::default();
    patch.add(Sides { before: Some("a.py"), after: None }, Sides { before: &old, after: "" });
    assert_eq!(patch.edits.len(), 10_000);
    patch.add(Sides { before: None, after: Some("b.py") }, Sides { before: "", after: &old });
    patch.leave_out_moved();
    assert_eq!(patch.edits, []);
    let imports =
        |name: &str| format!("{}f(x)\n", (0..10_000).map(|i| format!("from {name}{i} import x\n")).collect::<String>());
    assert_eq!(uses(&imports("a"), &imports("b")), [[10_001], [10_001]]);
    let functions = |name: &str| {
        (0..5_000).map(|i| format!("def f{i}():\n    from {name} import x\n    return x\n")).collect::<String>()
    };
    assert_eq!(uses(&functions("a"), &functions("b"))[1].len(), 5_000);
}

#[test]
fn an_edit_may_replace_a_number() {
    for (old, new, numbers) in [
        ("batch: 16", "batch: 32", Some([16.0, 32.0])),
        ("add(\"--replay\", 1, default=40_000)", "add(\"--replay\", 1, default=80_000)", Some([40_000.0, 80_000.0])),
        ("f(64, 3)", "f(640, 3)", Some([64.0, 640.0])),
        ("rate: 0.5", "rate: 0.25", Some([0.5, 0.25])),
        ("dtype: float16", "dtype: float32", Some([16.0, 32.0])),
        ("x = self.conv1(x)", "x = self.conv2(x)", None),
        ("lr = 1e-4", "lr = 1e-3", None),
        ("lr = 1e4", "lr = 1e5", None),
        ("n: 1", "n: two", None),
        ("n: 0", "n: 2", None),
        ("f(1, 2)", "f(2, 1)", None),
        ("größe: 1", "grüße: 2", None),
    ] {
        let line = Sides { before: Some((1, old.to_owned())), after: Some((1, new.to_owned())) };
        let found = Edit { line, ..Edit::default() }.numbers().map(|numbers| [numbers.before, numbers.after]);
        assert_eq!(found, numbers, "{old} | {new}");
    }
}

#[test]
fn an_edit_is_undone_alone() {
    let paths = Sides { before: Some("m.py"), after: Some("m.py") };
    let dedented = CODE.replace("    with torch.no_grad():\n", "").replace("        ", "    ");
    let new = dedented.replace("@torch.no_grad()", "@torch.compile");
    let mut patch = Patch::default();
    patch.add(paths, Sides { before: CODE, after: &new });
    let texts = Sides { before: CODE, after: &new };
    let undone: Vec<String> = patch.edits.iter().map(|edit| edit.undone(texts).unwrap()).collect();
    assert_eq!(undone, [dedented, CODE.replace("@torch.no_grad()", "@torch.compile")]);
    // Lines next to each other are of both.
    let both = new.replace("return out", "return [out]");
    assert_eq!(patch.edits[1].undone(Sides { before: CODE, after: &both }), None);
    // A number of a configuration.
    patch.add_configuration(paths, Sides { before: "a: 1\nb: 1\n", after: "a: 2\nb: 1\n" });
    let undone = patch.edits[2].undone(Sides { before: "a: 1\nb: 1\n", after: "a: 2\nb: 1\n" });
    assert_eq!(undone.as_deref(), Some("a: 1\nb: 1\n"));
    // A file whose lines are not read.
    let undone = Edit::of_whole(paths).undone(Sides { before: "1", after: "2" });
    assert_eq!(undone.as_deref(), Some("1"));
}

/// Time that grows with the square of the files would be minutes.
#[test]
fn a_change_may_have_many_files() {
    let mut patch = Patch::default();
    for at in 0..8_000 {
        let [one, other] = [at, at + 1].map(|at| format!("def f{at}():\n    return {at}\n"));
        patch.add(Sides { before: None, after: Some("a.py") }, Sides { before: "", after: &one });
        patch.add(Sides { before: Some("b.py"), after: None }, Sides { before: &other, after: "" });
    }
    assert_eq!(patch.edits.len(), 16_000);
    patch.leave_out_moved();
    let left: Vec<_> = patch.edits.iter().map(|edit| edit.scope.as_deref()).collect();
    assert_eq!(left, [Some("f0"), Some("f8000")]);
}

#[test]
fn a_file_of_more_edits_than_are_told_apart_is_one() {
    for (count, expected) in [(MOST_EDITS, MOST_EDITS), (MOST_EDITS + 1, 1)] {
        let text: String = (0..count).map(|at| format!("def f{at}(): pass\n")).collect();
        let mut patch = Patch::default();
        patch.add(Sides { before: None, after: Some("a.py") }, Sides { before: "", after: &text });
        assert_eq!(patch.edits.len(), expected);
        assert_eq!(patch.edits[0].whole_file().is_some(), expected == 1);
        assert_eq!(patch.find(Side::After, "/repo/a.py"), Some("a.py"));
    }
}

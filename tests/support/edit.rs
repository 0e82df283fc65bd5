//! Edits snapshots as changes to a code base would: what a pull request, another machine or another build does to
//! the frames, and nothing to the memory.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use super::pickle::{Memo, Node, Options, Tree, Value, Writer, decode};

/// A frame of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    pub name: String,
    pub file: String,
    pub line: i128,
}

impl Frame {
    pub fn new(name: &str, file: &str, line: i128) -> Self {
        Self { name: name.to_owned(), file: file.to_owned(), line }
    }

    pub fn is_python(&self) -> bool {
        self.file.ends_with(".py") || self.file.starts_with('<')
    }

    /// Whether it is Python outside of the environment.
    pub fn is_user(&self) -> bool {
        self.is_python()
            && !self.file.starts_with('<')
            && environment(&self.file).is_none()
            && !is_generated(&self.file)
    }
}

fn is_generated(file: &str) -> bool {
    file.contains("torchinductor_") || file.contains("fx_generated_")
}

/// The part of a path behind `lib/python3.x/`.
fn environment(file: &str) -> Option<&str> {
    let at = ["/lib/python3.", "/lib64/python3."].iter().find_map(|lib| Some(file.find(lib)? + lib.len()))?;
    file[at..].split_once('/').map(|(_, rest)| rest)
}

/// A snapshot that can be edited. Frames and their lists stay shared.
#[derive(Clone)]
pub struct Edited {
    tree: Tree,
    root: u32,
    /// The lists of frames and the frames in them, each once.
    lists: Vec<u32>,
    frames: Vec<u32>,
    /// Lists of the forward pass, formatted as text.
    forward: Vec<u32>,
}

/// A line of a formatted traceback.
fn parse(text: &str) -> Frame {
    let (file, rest) = text.trim().strip_prefix("File \"").unwrap().split_once("\", line ").unwrap();
    let (line, name) = rest.split_once(", in ").unwrap();
    Frame::new(name, file, line.parse().unwrap())
}

fn format(frame: &Frame) -> String {
    format!("  File \"{}\", line {}, in {}\n", frame.file, frame.line, frame.name)
}

impl Edited {
    pub fn open(path: &Path) -> Self {
        let file = std::fs::File::open(path).unwrap();
        let (tree, root) = if path.extension().is_some_and(|ending| ending == "zst") {
            decode(ruzstd::decoding::StreamingDecoder::new(file).unwrap(), Tree::plain()).unwrap()
        } else {
            decode(file, Tree::plain()).unwrap()
        };
        Self::new(tree, root)
    }

    /// Of a pickle that is not compressed.
    pub fn of(pickle: &[u8]) -> Self {
        let (tree, root) = decode(pickle, Tree::plain()).unwrap();
        Self::new(tree, root)
    }

    fn new(tree: Tree, root: u32) -> Self {
        let mut edited = Self { tree, root, lists: Vec::new(), frames: Vec::new(), forward: Vec::new() };
        edited.collect();
        edited
    }

    /// Finds all lists of frames: they stand below the key `frames`.
    fn collect(&mut self) {
        let (mut lists, mut forward) = (BTreeSet::new(), BTreeSet::new());
        for node in &self.tree.nodes {
            let Node::Dict(items) = node else { continue };
            lists.extend(items.chunks(2).filter(|pair| self.is_str(pair[0], "frames")).map(|pair| pair[1]));
            forward.extend(items.chunks(2).filter(|pair| self.is_str(pair[0], "forward_frames")).map(|pair| pair[1]));
        }
        self.forward = forward.into_iter().collect();
        let frames: BTreeSet<u32> = lists.iter().flat_map(|&list| self.items(list).to_vec()).collect();
        (self.lists, self.frames) = (lists.into_iter().collect(), frames.into_iter().collect());
    }

    fn is_str(&self, at: u32, text: &str) -> bool {
        matches!(self.tree.node(at), Node::Leaf(Value::Str(bytes)) if bytes == text.as_bytes())
    }

    fn items(&self, at: u32) -> &[u32] {
        match self.tree.node(at) {
            Node::List(items) | Node::Tuple(items) => items,
            _ => &[],
        }
    }

    fn get(&self, dict: u32, key: &str) -> Option<u32> {
        let Node::Dict(items) = self.tree.node(dict) else { return None };
        items.chunks(2).find(|pair| self.is_str(pair[0], key)).map(|pair| pair[1])
    }

    fn push(&mut self, node: Node) -> u32 {
        self.tree.nodes.push(node);
        u32::try_from(self.tree.nodes.len() - 1).unwrap()
    }

    fn leaf(&mut self, value: impl Into<Value>) -> u32 {
        self.push(Node::Leaf(value.into()))
    }

    /// Gives a dictionary another value for a key that it has; strings are shared, so none is changed in place.
    fn set(&mut self, dict: u32, key: &str, value: impl Into<Value>) {
        let value = self.leaf(value);
        self.set_node(dict, key, value);
    }

    fn set_node(&mut self, dict: u32, key: &str, value: u32) {
        let Node::Dict(items) = self.tree.node(dict) else { panic!("no dict") };
        let at = items.chunks(2).position(|pair| self.is_str(pair[0], key));
        let at = at.unwrap_or_else(|| panic!("no key {key}"));
        let Node::Dict(items) = &mut self.tree.nodes[dict as usize] else { panic!("no dict") };
        items[at * 2 + 1] = value;
    }

    fn dict(&mut self, pairs: &[(&str, u32)]) -> u32 {
        let items = pairs.iter().flat_map(|(key, value)| [self.leaf(*key), *value]).collect();
        self.push(Node::Dict(items))
    }

    fn text(&self, at: u32) -> String {
        match self.tree.node(at) {
            Node::Leaf(Value::Str(bytes)) => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("no string: {other:?}"),
        }
    }

    fn int(&self, at: u32) -> i128 {
        match self.tree.node(at) {
            Node::Leaf(Value::Int(int)) => *int,
            other => panic!("no integer: {other:?}"),
        }
    }

    fn frame(&self, at: u32) -> Frame {
        let field = |key| self.get(at, key).unwrap();
        Frame { name: self.text(field("name")), file: self.text(field("filename")), line: self.int(field("line")) }
    }

    fn stack(&self, list: u32) -> Vec<Frame> {
        self.items(list).iter().map(|&frame| self.frame(frame)).collect()
    }

    /// Edits every frame.
    pub fn each_frame(&mut self, mut edit: impl FnMut(&mut Frame)) {
        for at in self.frames.clone() {
            let old = self.frame(at);
            let mut new = old.clone();
            edit(&mut new);
            if new.name != old.name {
                self.set(at, "name", &*new.name);
            }
            if new.file != old.file {
                self.set(at, "filename", &*new.file);
            }
            if new.line != old.line {
                self.set(at, "line", new.line);
            }
        }
        self.each_forward(|mut frames| {
            frames.iter_mut().for_each(&mut edit);
            frames
        });
    }

    /// Edits the lists of the forward pass, outermost frame first.
    fn each_forward(&mut self, mut edit: impl FnMut(Vec<Frame>) -> Vec<Frame>) {
        for list in self.forward.clone() {
            let frames = self.items(list).iter().map(|&item| parse(&self.text(item))).collect();
            let items = edit(frames).iter().map(|frame| self.leaf(&*format(frame))).collect();
            self.tree.nodes[list as usize] = Node::List(items);
        }
    }

    /// Puts frames into every list, directly inside or outside of frames of a file.
    fn insert(&mut self, file: &str, frames: &[Frame], outside: bool) {
        let new: Vec<u32> = frames
            .iter()
            .map(|frame| {
                let values = [
                    ("name", self.leaf(&*frame.name)),
                    ("filename", self.leaf(&*frame.file)),
                    ("line", self.leaf(frame.line)),
                ];
                self.dict(&values)
            })
            .collect();
        for list in self.lists.clone() {
            let mut items = Vec::new();
            for at in self.items(list).to_vec() {
                let here = self.frame(at).file == file;
                if here && !outside {
                    items.extend(&new);
                }
                items.push(at);
                if here && outside {
                    items.extend(&new);
                }
            }
            if let Node::List(list) = &mut self.tree.nodes[list as usize] {
                *list = items;
            }
        }
        self.frames.extend(new);
        self.each_forward(|old| {
            let mut all = Vec::new();
            for frame in old {
                let here = frame.file == file;
                let wrapped = here && outside;
                all.extend(if wrapped { frames.to_vec() } else { Vec::new() });
                all.push(frame);
                all.extend(if here && !outside { frames.to_vec() } else { Vec::new() });
            }
            all
        });
    }

    /// The files of the user, in order.
    pub fn user_files(&self) -> Vec<String> {
        let frames = self.frames.iter().map(|&at| self.frame(at)).filter(Frame::is_user);
        frames.map(|frame| frame.file).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The functions of the user with their files, in order.
    pub fn user_functions(&self) -> Vec<(String, String)> {
        let frames = self.frames.iter().map(|&at| self.frame(at)).filter(Frame::is_user);
        frames.map(|frame| (frame.file, frame.name)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn segments(&self) -> Vec<u32> {
        self.items(self.get(self.root, "segments").unwrap_or(self.root)).to_vec()
    }

    fn traces(&self) -> Vec<u32> {
        self.get(self.root, "device_traces").map(|list| self.items(list).to_vec()).unwrap_or_default()
    }

    pub fn has_events(&self) -> bool {
        self.traces().iter().any(|&trace| self.items(trace).len() > 1)
    }

    /// Leaves a part of the history of every device: its events from one share of them to another, in percent. The
    /// state at the dump stays.
    pub fn keep_events(&mut self, from: usize, to: usize) {
        for trace in self.traces() {
            let events = self.items(trace).to_vec();
            let place = |share: usize| events.len() * share / 100;
            self.tree.nodes[trace as usize] = Node::List(events[place(from)..place(to)].to_vec());
        }
    }

    /// Every stack of the history that allocates, with its device and the bytes that it asks for in total.
    pub fn allocating(&self) -> BTreeMap<(usize, Vec<Frame>), i128> {
        let mut stacks = BTreeMap::new();
        for (device, trace) in self.traces().into_iter().enumerate() {
            for &event in self.items(trace) {
                let is_alloc = self.is_str(self.get(event, "action").unwrap(), "alloc");
                if let (true, Some(list)) = (is_alloc, self.get(event, "frames")) {
                    let bytes = self.int(self.get(event, "size").unwrap());
                    *stacks.entry((device, self.stack(list))).or_default() += bytes;
                }
            }
        }
        stacks.retain(|(_, stack), _| !stack.is_empty());
        stacks
    }

    /// One more allocation of a stack that exists, held for the whole history: every counter grows by `bytes`.
    pub fn grow(&mut self, device: usize, stack: &[Frame], bytes: u64) {
        let ends = self.segments().into_iter().map(|segment| {
            self.int(self.get(segment, "address").unwrap()) + self.int(self.get(segment, "total_size").unwrap())
        });
        let events = self.traces().into_iter().flat_map(|trace| self.items(trace).to_vec());
        let used = events.filter_map(|event| self.get(event, "addr")).map(|addr| self.int(addr));
        let top = ends.chain(used).max().unwrap();
        let address = (top | ((1 << 40) - 1)) + 1;
        let list = *self.lists.iter().find(|&&list| self.stack(list) == stack).unwrap();
        let trace = self.traces()[device];
        let first = self.items(trace)[0];
        let time = self.get(first, "time_us");
        let model = *self.items(trace).iter().find(|&&event| self.get(event, "frames") == Some(list)).unwrap_or(&first);
        let mut new = Vec::new();
        for action in ["segment_alloc", "alloc"] {
            let Node::Dict(items) = self.tree.node(model).clone() else { panic!("no event") };
            let event = self.push(Node::Dict(items));
            self.set(event, "action", action);
            self.set(event, "addr", address);
            self.set(event, "size", bytes);
            self.set_node(event, "frames", list);
            if let Some(time) = time {
                self.set_node(event, "time_us", time);
            }
            new.push(event);
        }
        let Node::List(events) = &mut self.tree.nodes[trace as usize] else { panic!("no trace") };
        events.splice(0..0, new);
        let block = [
            ("address", self.leaf(address)),
            ("size", self.leaf(bytes)),
            ("requested_size", self.leaf(bytes)),
            ("state", self.leaf("active_allocated")),
            ("frames", list),
        ];
        let block = self.dict(&block);
        let blocks = self.push(Node::List(vec![block]));
        let segment = [
            ("device", self.leaf(i128::try_from(device).unwrap())),
            ("address", self.leaf(address)),
            ("total_size", self.leaf(bytes)),
            ("allocated_size", self.leaf(bytes)),
            ("active_size", self.leaf(bytes)),
            ("requested_size", self.leaf(bytes)),
            ("stream", self.leaf(0)),
            ("segment_type", self.leaf("large")),
            ("is_expandable", self.leaf(false)),
            ("frames", list),
            ("blocks", blocks),
        ];
        let segment = self.dict(&segment);
        let segments = self.get(self.root, "segments").unwrap();
        let Node::List(segments) = &mut self.tree.nodes[segments as usize] else { panic!("no segments") };
        segments.push(segment);
    }

    /// Gives the allocations of one stack to another.
    pub fn reattribute(&mut self, from: &[Frame], to: &[Frame]) {
        let to =
            self.lists.iter().find(|&&list| self.stack(list) == to).map(|&list| self.items(list).to_vec()).unwrap();
        for list in self.lists.clone() {
            if self.stack(list) == from
                && let Node::List(items) = &mut self.tree.nodes[list as usize]
            {
                items.clone_from(&to);
            }
        }
    }

    /// Has all strings, frames and stacks read before everything else, and the keys of each dictionary, in an order that depends on
    /// `seed`: each gets another number, and nothing else changes. The root has to be a dictionary.
    pub fn renumber(&mut self, seed: u64) {
        for node in &mut self.tree.nodes {
            let Node::Dict(items) = node else { continue };
            let mut pairs: Vec<[u32; 2]> = items.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
            pairs.sort_by_key(|[key, value]| (rank(seed, *key), rank(seed, *value)));
            *items = pairs.concat();
        }
        let leaves = (0..u32::try_from(self.tree.nodes.len()).unwrap())
            .filter(|&at| matches!(self.tree.node(at), Node::Leaf(Value::Str(_))));
        let orders = [leaves.collect(), self.frames.clone(), self.lists.clone()];
        let mut all = Vec::new();
        for mut nodes in orders {
            nodes.sort_by_key(|&at| rank(seed, at));
            all.push(self.push(Node::List(nodes)));
        }
        self.put_first(all);
    }

    /// Adds a list under a key that no reader knows, before all other keys.
    pub fn put_first(&mut self, list: Vec<u32>) {
        let [key, value] = [self.leaf("read before everything else"), self.push(Node::List(list))];
        let Node::Dict(items) = &mut self.tree.nodes[self.root as usize] else { panic!("no dict") };
        items.splice(0..0, [key, value]);
    }

    pub fn is_dict(&self) -> bool {
        matches!(self.tree.node(self.root), Node::Dict(_))
    }

    /// The pickle, with everything that is shared written once.
    pub fn bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(Options { memo: Memo::Memoize, ..Options::default() });
        let mut known = HashMap::new();
        self.write_node(self.root, &mut writer, &mut known);
        writer.finish()
    }

    pub fn write(&self, path: &Path) {
        std::fs::write(path, self.bytes()).unwrap();
    }

    fn write_node(&self, at: u32, writer: &mut Writer, known: &mut HashMap<u32, usize>) {
        if let Some(&index) = known.get(&at) {
            writer.get(index);
            return;
        }
        match self.tree.node(at) {
            // Writes its own number in the memo, if it has one.
            Node::Leaf(value) => writer.value(value),
            Node::Tuple(items) => {
                writer.op(b"(");
                items.iter().for_each(|&item| self.write_node(item, writer, known));
                writer.op(b"t");
                known.insert(at, writer.memoize());
            }
            Node::List(items) => {
                writer.op(b"]");
                known.insert(at, writer.memoize());
                writer.op(b"(");
                items.iter().for_each(|&item| self.write_node(item, writer, known));
                writer.op(b"e");
            }
            Node::Dict(items) => {
                writer.op(b"}");
                known.insert(at, writer.memoize());
                writer.op(b"(");
                items.iter().for_each(|&item| self.write_node(item, writer, known));
                writer.op(b"u");
            }
            Node::Set(_) => panic!("snapshots hold no sets"),
        }
    }
}

/// The place of a node in an order that depends on `seed`.
fn rank(seed: u64, at: u32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, at).hash(&mut hasher);
    hasher.finish()
}

/// All lines of a file move.
pub fn move_lines(snapshot: &mut Edited, file: &str, by: i128) {
    snapshot.each_frame(|frame| {
        // Beyond that it is PyTorch's word for unknown.
        if frame.file == file && (1..1 << 31).contains(&frame.line) {
            frame.line += by;
        }
    });
}

/// The folder that all of the user's code has in common lies elsewhere.
pub fn check_out_elsewhere(snapshot: &mut Edited) {
    let files = snapshot.user_files();
    let Some(first) = files.first() else { return };
    let mut root = &first[..=first.rfind('/').unwrap_or(0)];
    while !files.iter().all(|file| file.starts_with(root)) {
        let parent = root.trim_end_matches('/').rfind('/').unwrap_or(0);
        root = &root[..=parent];
    }
    let root = root.to_owned();
    snapshot.each_frame(|frame| {
        if frame.is_user() {
            frame.file = format!("/builds/pr-17/{}", &frame.file[root.len()..]);
        }
    });
}

/// Only the folder of one file lies elsewhere.
pub fn move_folder(snapshot: &mut Edited, file: &str) {
    let folder = file[..=file.rfind('/').unwrap_or(0)].to_owned();
    snapshot.each_frame(|frame| {
        if frame.is_user() && frame.file.starts_with(&folder) {
            frame.file = format!("/opt/elsewhere/{}", &frame.file[folder.len()..]);
        }
    });
}

/// Another virtual environment with another Python.
pub fn renew_environment(snapshot: &mut Edited) {
    snapshot.each_frame(|frame| {
        if let Some(rest) = environment(&frame.file) {
            frame.file = format!("/opt/venvs/ci/lib/python3.15/{rest}");
        }
    });
}

/// One function gets another name.
pub fn rename_function(snapshot: &mut Edited, file: &str, old: &str, new: &str) {
    snapshot.each_frame(|frame| {
        if frame.file == file && frame.name == old {
            new.clone_into(&mut frame.name);
        }
    });
}

/// One file gets another path.
pub fn move_file(snapshot: &mut Edited, old: &str, new: &str) {
    snapshot.each_frame(|frame| {
        if frame.file == old {
            new.clone_into(&mut frame.file);
        }
    });
}

/// Every function of a file is wrapped by a decorator.
pub fn decorate(snapshot: &mut Edited, file: &str) {
    let folder = &file[..=file.rfind('/').unwrap_or(0)];
    snapshot.insert(file, &[Frame::new("wrapper", &format!("{folder}decorators.py"), 12)], true);
}

/// Another build of PyTorch: other lines, unknown files, namespaces and copies of functions.
pub fn drift_cpp(snapshot: &mut Edited) {
    let mut count = 0;
    snapshot.each_frame(|frame| {
        if frame.is_python() {
            return;
        }
        frame.name = frame.name.replace("c10::", "std::");
        // By its name, so that equal frames stay equal: one build has one text for one function.
        count = frame.name.bytes().map(i128::from).sum::<i128>();
        match count % 3 {
            0 => frame.name.push_str(" [clone .cold]"),
            1 => "??".clone_into(&mut frame.file),
            _ => frame.name.push_str(" [clone .localalias]"),
        }
        frame.line = count;
    });
}

/// Compiles a file as torch.compile does: generated code inside of its functions.
pub fn compile(snapshot: &mut Edited, file: &str) {
    let generated = [
        Frame::new("call", "/tmp/torchinductor_me/xy/cxyzabcdefgh.py", 120),
        Frame::new("forward", "<eval_with_key>.7", 5),
        Frame::new("_fn", "/opt/venv/lib/python3.12/site-packages/torch/_dynamo/eval_frame.py", 838),
    ];
    snapshot.insert(file, &generated, false);
}

/// Code generated anew.
pub fn generate_again(snapshot: &mut Edited) {
    snapshot.each_frame(|frame| {
        if is_generated(&frame.file) {
            "/tmp/torchinductor_ci/qr/cqrs01234567.py".clone_into(&mut frame.file);
            frame.line += 31;
        } else if frame.file.starts_with("<eval_with_key>") {
            "<eval_with_key>.93".clone_into(&mut frame.file);
        }
    });
}

/// Another run: other addresses, streams, times and pools.
pub fn run_again(snapshot: &mut Edited) {
    const ADDRESSES: [&str; 2] = ["address", "addr"];
    for at in 0..snapshot.tree.nodes.len() {
        let dict = u32::try_from(at).unwrap();
        if !matches!(snapshot.tree.node(dict), Node::Dict(_)) {
            continue;
        }
        for key in ADDRESSES {
            if let Some(value) = snapshot.get(dict, key).map(|value| snapshot.int(value)).filter(|&value| value > 0) {
                snapshot.set(dict, key, value + (7 << 30));
            }
        }
        if let Some(stream) = snapshot.get(dict, "stream").map(|value| snapshot.int(value)).filter(|&value| value != 0)
        {
            snapshot.set(dict, "stream", stream + 4096);
        }
        if let Some(time) = snapshot.get(dict, "time_us").map(|value| snapshot.int(value)) {
            snapshot.set(dict, "time_us", time + 86_400_000_000);
        }
        for key in ["pool_id", "segment_pool_id"] {
            let Some(pool) = snapshot.get(dict, key) else { continue };
            let numbers: Vec<i128> = snapshot.items(pool).iter().map(|&item| snapshot.int(item)).collect();
            if let [a, b] = numbers[..]
                && (a, b) != (0, 0)
            {
                let items = vec![snapshot.leaf(a + 3), snapshot.leaf(b + 5)];
                let pool = snapshot.push(Node::Tuple(items));
                snapshot.set_node(dict, key, pool);
            }
        }
    }
}

//! Workflows and actions of a repository, read by their lines: their jobs and steps, and which of them run the Action.

use std::collections::BTreeSet;

/// Inputs of the Action that decide nothing: neither the verdict nor whether reviewers are informed.
const SHOWN: [&str; 5] = ["summary", "annotations", "page", "sarif", "pictures"];

/// Expressions whose values are set elsewhere in the file.
const ELSEWHERE: [&str; 5] = ["matrix.", "env.", "steps.", "needs.", "inputs."];

/// Line breaks of YAML.
const BREAKS: [char; 5] = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];

/// A workflow, or an action that a repository has for itself.
pub(super) struct Workflow {
    /// From the root of the repository.
    path: String,
    lines: Vec<Line>,
}

/// A line that is neither blank nor a comment.
struct Line {
    /// Its keys from the root, `-` for an item of a list.
    keys: Vec<String>,
    /// Its text without indentation and dashes.
    text: String,
    /// The number of the step that it belongs to.
    step: Option<usize>,
}

/// The jobs and steps of some files that run the Action, each by the lines that decide something.
#[derive(Default)]
pub(super) struct Gates {
    pub(super) steps: Vec<Vec<String>>,
    /// The rest of jobs with such steps, of jobs that these need, and of their files outside of jobs.
    pub(super) jobs: Vec<Vec<String>>,
    /// Whether values of some steps are set elsewhere in the file.
    pub(super) have_expressions: bool,
}

impl Gates {
    /// `running` is the path of the workflow that runs now.
    pub(super) fn of(files: &[Workflow], running: Option<&str>) -> Self {
        let mut local = BTreeSet::new();
        loop {
            let calls = |file: &&Workflow| file.lines.iter().any(|line| line.runs_us(&local));
            let calling: BTreeSet<&str> = files.iter().filter(calls).map(Workflow::name).collect();
            if calling.is_subset(&local) {
                break;
            }
            local.extend(calling);
        }
        let mut gates = Self::default();
        files.iter().for_each(|file| gates.add(file, &local, running == Some(&*file.path)));
        gates
    }

    fn add(&mut self, file: &Workflow, local: &BTreeSet<&str>, is_running: bool) {
        let ours: Vec<&Line> = file.lines.iter().filter(|line| line.runs_us(local)).collect();
        let mut jobs: BTreeSet<&str> = ours.iter().filter_map(|line| line.job()).collect();
        // It runs the Action by way of a file that is not here.
        if jobs.is_empty() && is_running {
            jobs.extend(file.lines.iter().filter_map(Line::job));
        }
        if jobs.is_empty() {
            return;
        }
        file.add_needed(&mut jobs);
        let steps: BTreeSet<usize> =
            ours.iter().filter(|line| !line.only_comments()).filter_map(|line| line.step).collect();
        let decides = |line: &&Line| !line.is_label(line.step.is_some_and(|step| steps.contains(&step)));
        let deciding: Vec<&Line> = file.lines.iter().filter(decides).collect();
        for step in &steps {
            let lines = deciding.iter().filter(|line| line.step == Some(*step));
            self.steps.push(lines.map(|line| line.text.clone()).collect());
            self.have_expressions |=
                self.steps.last().is_some_and(|lines| lines.iter().any(|line| is_decided_elsewhere(line)));
        }
        for job in jobs.into_iter().map(Some).chain([None]) {
            let lines = deciding.iter().filter(|line| line.job() == job);
            let around = lines.filter(|line| line.step.is_none_or(|step| !steps.contains(&step)));
            self.jobs.push(around.map(|line| line.text.clone()).collect());
        }
    }

    /// Whether a step has every line of a command, or a file where its steps have expressions.
    pub(super) fn have(&self, command: &str) -> bool {
        let wanted: Vec<&str> = command.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let jobs = self.jobs.iter().filter(|_| self.have_expressions);
        self.steps
            .iter()
            .chain(jobs)
            .any(|step| wanted.iter().all(|wanted| step.iter().any(|line| line.contains(wanted))))
    }
}

impl Workflow {
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let mut file = Self { path: path.to_owned(), lines: Vec::new() };
        let mut above: Vec<(usize, String)> = Vec::new();
        let mut steps = 0;
        // The column of a key whose value is a text of several lines.
        let mut scalar = None;
        for line in text.split(BREAKS) {
            let mut rest = line.trim_start();
            if rest.is_empty() || rest.starts_with('#') {
                continue;
            }
            let mut column = line.len() - rest.len();
            if scalar.is_none_or(|of_key| column <= of_key) {
                while let Some(item) = rest.strip_prefix('-').filter(|item| item.is_empty() || item.starts_with(' ')) {
                    above.retain(|(at, key)| *at < column || *at == column && key != "-");
                    above.push((column, "-".to_owned()));
                    steps += usize::from(is_step(&above));
                    column += rest.len() - item.trim_start().len();
                    rest = item.trim_start();
                }
                above.retain(|(at, _)| *at < column);
                let (key, value) = rest.split_once(':').unwrap_or((rest, ""));
                above.push((column, key.trim().trim_matches(['"', '\'']).to_owned()));
                scalar = value.trim_start().starts_with(['|', '>']).then_some(column);
            }
            let keys: Vec<String> = above.iter().map(|(_, key)| key.clone()).collect();
            let step = (0..=above.len()).any(|length| is_step(&above[..length])).then_some(steps);
            file.lines.push(Line { keys, text: without_version(rest.trim_end()), step });
        }
        file
    }

    /// The name by which files of the repository call it.
    fn name(&self) -> &str {
        match self.path.rsplit_once('/') {
            Some((folder, name)) if is_action(name) => folder,
            _ => &self.path,
        }
    }

    /// Adds the jobs whose results others need.
    fn add_needed<'f>(&'f self, jobs: &mut BTreeSet<&'f str>) {
        let all: BTreeSet<&str> = self.lines.iter().filter_map(Line::job).collect();
        loop {
            let needs = |line: &&Line| {
                line.keys.get(2).is_some_and(|key| key == "needs") && line.job().is_some_and(|job| jobs.contains(job))
            };
            let needed = self.lines.iter().filter(needs).flat_map(|line| {
                line.text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect::<Vec<_>>()
            });
            let needed: Vec<&str> = needed.filter_map(|name| all.get(name).copied()).collect();
            let known = jobs.len();
            jobs.extend(needed);
            if jobs.len() == known {
                return;
            }
        }
    }
}

/// Whether a path below the root is that of a workflow or an action.
pub(super) fn is_workflow(path: &str) -> bool {
    let is_yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    path.starts_with(".github/") && is_yaml || is_action(path.rsplit('/').next().unwrap_or_default())
}

fn is_action(name: &str) -> bool {
    ["action.yml", "action.yaml"].contains(&name)
}

/// Whether keys end at an item of the steps of a job or an action.
fn is_step(keys: &[(usize, String)]) -> bool {
    match keys {
        [(_, jobs), _, (_, steps), (_, item)] => jobs == "jobs" && steps == "steps" && item == "-",
        [(_, runs), (_, steps), (_, item)] => runs == "runs" && steps == "steps" && item == "-",
        _ => false,
    }
}

/// What follows the key `uses` of a line: the name of an action, maybe with its version.
fn used(text: &str) -> Option<&str> {
    let (before, value) = text.split_once("uses")?;
    let is_key = before.chars().all(|c| "{ \"'".contains(c)) || before.starts_with('{');
    let value = value.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':').filter(|_| is_key)?;
    let value = value.split([',', '}', '#', '@']).next()?;
    Some(value.trim().trim_matches(['"', '\'']))
}

/// A line that names an action, without the version.
fn without_version(text: &str) -> String {
    match used(text).filter(|_| !text.starts_with('{')) {
        Some(name) => format!("uses: {name}"),
        None => text.to_owned(),
    }
}

/// Whether the value of a line is an expression or an alias that another part of the file decides.
fn is_decided_elsewhere(line: &str) -> bool {
    let value = line.split_once(':').map_or("", |(_, value)| value.trim());
    value.starts_with('*') || (line.contains("${{") && ELSEWHERE.iter().any(|context| line.contains(context)))
}

impl Line {
    /// The job that it belongs to. All of an action is one.
    fn job(&self) -> Option<&str> {
        match &*self.keys {
            [jobs, job, ..] if jobs == "jobs" => Some(job),
            [runs, ..] if runs == "runs" => Some(runs),
            _ => None,
        }
    }

    /// The action that a step or a job calls.
    fn called(&self) -> Option<&str> {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        match *keys {
            ["jobs", _, _] | ["jobs", _, _, "-", _] | ["runs", _, "-", _] => used(&self.text),
            _ => None,
        }
    }

    /// Whether it names the Action, or a file of the repository that does.
    fn runs_us(&self, local: &BTreeSet<&str>) -> bool {
        self.called().is_some_and(|name| {
            let is_local = name.strip_prefix("./").is_some_and(|path| local.contains(path.trim_end_matches('/')));
            is_local || name.split('/').any(|part| part.to_lowercase().contains("ptmem"))
        })
    }

    /// Whether it names the Action that only posts a comment.
    fn only_comments(&self) -> bool {
        self.called().is_some_and(|name| name.ends_with("/comment"))
    }

    /// Whether it names something for readers, or says how results of the Action are shown.
    fn is_label(&self, of_gate: bool) -> bool {
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        match *keys {
            ["name" | "run-name" | "description", ..] | ["jobs", _, "name", ..] => true,
            ["jobs", _, _, "-", "name" | "id", ..] | ["runs", _, "-", "name" | "id", ..] => true,
            ["jobs", _, _, "-", "with", input, ..] | ["runs", _, "-", "with", input, ..] => {
                of_gate && SHOWN.contains(&input)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SHOWN;

    #[test]
    fn the_inputs_that_decide_nothing_are_inputs() {
        let action = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/action.yml")).unwrap();
        for input in SHOWN {
            assert!(action.contains(&format!("\n  {input}:\n")), "{input}");
        }
    }
}

//! Whether a program can run on a runner, which has what it makes, downloads or finds in the repository.

use std::path::Path;

use super::programs::call;

/// Whether a program can run on a runner; those that can come first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Readiness {
    /// It makes or downloads its data, or the repository has them.
    Ready,
    /// Its text does not say, or tells the user to install packages first.
    Unknown,
    /// It reads data from a path that the repository does not have.
    LacksData(String),
    /// A notebook that raised when it last ran, as some do by design.
    Raised,
}

/// Parts of the text of a program that downloads data, or makes them.
const AVAILABLE: [&str; 8] = [
    "download=True",
    "download = True",
    "load_dataset(",
    "urlretrieve(",
    "FakeData(",
    "ynthetic",
    "import make_",
    "generate_data",
];

/// Folders that every machine has.
const EVERYWHERE: [&str; 4] = ["/tmp", "/dev", "/usr", "/proc"];

impl Readiness {
    /// That of a program with this text in the repository of `root`.
    pub(super) fn of(root: &Path, text: &str) -> Self {
        if text.contains("\"output_type\": \"error\"") {
            return Self::Raised;
        }
        if AVAILABLE.iter().any(|part| text.contains(part)) {
            return if text.contains("pip install") { Self::Unknown } else { Self::Ready };
        }
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(|line| [line, "\n"]).collect();
        let strings = code.split(['"', '\'']);
        let mut absolute =
            strings.filter(|string| is_path(string) && string.starts_with('/') && !string.starts_with("//"));
        let foreign = absolute.find(|path| !EVERYWHERE.iter().any(|folder| path.starts_with(folder)));
        let mut read = read_files(&code).peekable();
        let is_there = read.peek().is_some();
        let lacking = read.find(|path| !root.join(path).is_file());
        match foreign.or(lacking) {
            Some(path) => Self::LacksData(path.to_owned()),
            None if is_there => Self::Ready,
            None => Self::Unknown,
        }
    }

    /// Why it cannot run, in words that continue a list.
    pub(super) fn obstacle(&self) -> String {
        match self {
            Self::Ready | Self::Unknown => String::new(),
            Self::LacksData(path) => format!("; its data {path} are not in the repository"),
            Self::Raised => "; its saved output has an error".to_owned(),
        }
    }
}

/// True for a path of several parts.
fn is_path(text: &str) -> bool {
    text.chars().skip(1).any(|c| c == '/') && text.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c))
}

/// Calls that read a file whose name they get.
const READERS: [&str; 4] = ["read_csv(", "np.load(", "read_json(", "read_parquet("];

/// The files that calls read, where the text names them.
fn read_files(text: &str) -> impl Iterator<Item = &str> {
    let calls = READERS.iter().flat_map(|reader| text.split(reader).skip(1)).map(call);
    calls.filter_map(|call| call.strip_prefix(['"', '\''])?.split(['"', '\'']).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_has_what_is_downloaded_made_or_in_the_repository() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("names.csv"), "").unwrap();
        let missing = |path: &str| Readiness::LacksData(path.to_owned());
        for (text, data) in [
            ("d = MNIST('/datasets/mnist', download=True)", Readiness::Ready),
            ("from sklearn.datasets import make_moons", Readiness::Ready),
            ("!pip install apex\nfrom sklearn.datasets import make_moons", Readiness::Unknown),
            ("d = pd.read_csv('names.csv')", Readiness::Ready),
            ("d = pd.read_csv(\"titles.csv\", sep=',')", missing("titles.csv")),
            ("p.add_argument('--data', default=\"/datasets/imagenet/train\")", missing("/datasets/imagenet/train")),
            ("# p = '/datasets/x'\nd = load('/tmp/x/y', '//host/x', '/')", Readiness::Unknown),
            ("model.fit(x, 'σ')", Readiness::Unknown),
            ("download=True)\n     \"output_type\": \"error\",", Readiness::Raised),
        ] {
            assert_eq!(Readiness::of(place.path(), text), data, "{text}");
        }
    }
}

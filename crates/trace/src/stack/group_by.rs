//! The rules for stacks that count as one.

use strum::VariantArray;

use super::token::legible;

/// The rule for stacks that count as one.
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::Display, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum GroupBy {
    /// All frames with their lines.
    Frames,
    /// Python frames without line numbers, in any folder.
    #[default]
    Stack,
    /// The line of your code that allocates.
    Line,
    /// The function of your code that allocates.
    Function,
    /// The purpose of the memory: parameters, forward, gradients, backward, optimizer, communication, data, other.
    Category,
    /// The text given to _set_memory_metadata() at the allocation.
    Metadata,
    /// The compiled region that allocates.
    CompileContext,
    /// The nn.Module that allocates, or to which the memory belongs (needs 'ptmem simulate --modules').
    Module,
    /// The purpose as the recorder saw it: parameters, gradients, optimizer state, activations, temporary, communication,
    /// workspace (needs --modules).
    Purpose,
    /// Type and shape of the tensor (needs 'ptmem simulate --shapes').
    Shape,
}

ptmem_base::named!(GroupBy);

impl GroupBy {
    /// All of them.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The word for a group.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Frames | Self::Stack => "stack",
            Self::CompileContext => "region",
            by => by.name(),
        }
    }

    /// The word for several groups.
    pub fn plural(self) -> String {
        match self {
            Self::Category => "categories".to_owned(),
            Self::Metadata => "metadata".to_owned(),
            by => format!("{}s", by.noun()),
        }
    }

    /// True for groups that are places in the code, which a change to it can move. The others go by their name.
    pub fn is_place(self) -> bool {
        !matches!(self, Self::Category) && !self.is_tag()
    }

    /// True for groups that go by tags of allocations, not by stacks.
    pub fn is_tag(self) -> bool {
        matches!(self, Self::Metadata | Self::CompileContext | Self::Module | Self::Purpose | Self::Shape)
    }
}

/// The name of a tag, with the number of a layer folded: `layers.0` and `layers.1` are the same code. The paths of modules
/// are folded when they are read.
pub(super) fn tag_name(by: GroupBy, text: Option<&str>) -> String {
    match (by, text.filter(|text| !text.is_empty())) {
        (GroupBy::CompileContext, None | Some("N/A")) => "<not compiled>".to_owned(),
        (GroupBy::Shape, None) => "<no tensor>".to_owned(),
        (GroupBy::Module | GroupBy::Purpose, None) => format!("<no {by}>"),
        (_, None) => "<no metadata>".to_owned(),
        (GroupBy::Module | GroupBy::Purpose | GroupBy::Shape, Some(text)) => legible(text).to_owned(),
        (_, Some(text)) => {
            let mut folded = String::new();
            let mut after_name = false;
            for part in legible(text).split_inclusive('.') {
                let name = part.trim_end_matches('.');
                let number = is_number(name);
                folded.push_str(&if number && after_name { part.replace(name, "*") } else { part.to_owned() });
                // The digits after the decimal point of a number are not a layer.
                after_name = number && after_name || name.ends_with(|c: char| c.is_alphabetic() || c == '_');
            }
            folded
        }
    }
}

/// The path of a module with the numbers of its layers folded, but for the outermost `levels` of them.
pub fn folded_module(path: &str, levels: u32) -> String {
    let mut numbers = 0;
    let mut parts: Vec<&str> = path.split('.').collect();
    for part in parts.iter_mut().filter(|part| is_number(part)) {
        numbers += 1;
        if numbers > levels {
            *part = "*";
        }
    }
    parts.join(".")
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

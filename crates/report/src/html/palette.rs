//! One colour for each category: the same on both sides, and for the categories that are built in on every page.

use crate::picture::Picture;
use crate::profile::Bucket;
use crate::stack::CATEGORIES;

/// Memory of unknown category, with colours behind those of the categories.
const BUCKETS: [Bucket; 3] = [Bucket::BeforeRecording, Bucket::NotRecorded, Bucket::NoFrames];

/// Categories of a configuration that have colours of their own; further ones share the last colour.
const MOST_OWN: usize = 3;

/// The colours of the categories of a picture, as numbers of classes in the style sheets.
pub(super) struct Palette<'p> {
    /// The categories that are not built in, by name.
    own: Vec<&'p str>,
}

impl<'p> Palette<'p> {
    /// The number of the colour that further categories share.
    pub(super) const SHARED: usize = CATEGORIES.len() + BUCKETS.len() + MOST_OWN;

    pub(super) fn new(picture: &'p Picture) -> Self {
        Self::of(picture.categories.iter().map(String::as_str))
    }

    fn of(categories: impl Iterator<Item = &'p str>) -> Self {
        let mut own: Vec<&str> = categories.filter(|name| built_in(name).is_none()).collect();
        own.sort_unstable();
        Self { own }
    }

    fn own_colour(&self, category: &str) -> Option<usize> {
        let place = self.own.iter().take(MOST_OWN).position(|name| *name == category)?;
        Some(CATEGORIES.len() + BUCKETS.len() + place)
    }

    /// The number of the colour of a category.
    pub(super) fn colour(&self, category: &str) -> usize {
        built_in(category).or_else(|| self.own_colour(category)).unwrap_or(Self::SHARED)
    }
}

fn built_in(category: &str) -> Option<usize> {
    CATEGORIES.into_iter().chain(BUCKETS.map(Bucket::label)).position(|name| name == category)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_by_name_and_every_one_is_in_the_style_sheets() {
        let palette = Palette::of(["forward", "zeta", "<before recording>", "alpha", "cache", "omega"].into_iter());
        let colours =
            ["forward", "<before recording>", "alpha", "cache", "omega", "zeta"].map(|name| palette.colour(name));
        assert_eq!(colours, [2, 8, 11, 12, 13, 14]);
        assert_eq!(Palette::of(["forward"].into_iter()).colour("forward"), 2);
        for colour in 0..=Palette::SHARED {
            assert!(
                include_str!("assets/page.css")
                    .contains(&format!("path.c{colour}, .block.c{colour}, .key.c{colour} {{")),
                "{colour}"
            );
            assert!(include_str!("assets/timeline.css").contains(&format!(".c{colour} {{")), "{colour}");
        }
    }
}

//! Memory that the same code gets by another operator: with `inplace=True`, the result of an activation is the memory of what it is
//! computed from, which was freed before.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ptmem_base::sides::{Side, Sides};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::DeviceProfile;
use ptmem_trace::stack::{SnapshotCode, Token};

use super::converted::calling_functions;
use super::moved::MOST_ALIKE;
use super::unpaired::{UnpairedStack, without_partner};

/// The sizes of the blocks that each stack allocates, as they were requested.
type BlockSizes = HashMap<StackId, BTreeSet<u64>>;

/// The stacks of a row in which one operator allocates, in one pass.
#[derive(Default)]
pub(super) struct OperatorStacks {
    /// Those that hold something.
    pub(super) held: Sides<Vec<UnpairedStack>>,
    /// Those that hold nothing any more.
    pub(super) freed: Sides<Vec<StackId>>,
}

impl OperatorStacks {
    /// Requested bytes and blocks of a side.
    fn held(&self, side: Side) -> [u64; 2] {
        self.held.of(side).iter().fold([0, 0], |[bytes, blocks], UnpairedStack { member, .. }| {
            [bytes.saturating_add(member.requested), blocks.saturating_add(member.at.blocks)]
        })
    }

    /// The side that holds more bytes in more blocks, and how many.
    fn change(&self) -> Option<(Side, [u64; 2])> {
        let [before, after] = [Side::Before, Side::After].map(|side| self.held(side));
        let larger = if after > before { Side::After } else { Side::Before };
        let [more, less] = if larger == Side::After { [after, before] } else { [before, after] };
        let change = [more[0] - less[0], more[1].checked_sub(less[1])?];
        (!change.contains(&0)).then_some((larger, change))
    }

    /// Whether the other side has as many more stacks that hold nothing than there are of these, of the same sizes of blocks.
    fn frees(&self, stacks: &[UnpairedStack], side: Side, sizes: &Sides<BlockSizes>) -> bool {
        let mut more = BTreeMap::<_, i64>::new();
        for (freeing, freed) in self.freed.each() {
            for stack in freed {
                *more.entry(sizes.of(freeing).get(stack)).or_default() += if freeing == side { -1 } else { 1 };
            }
        }
        let of_these: Vec<_> = stacks.iter().map(|stack| sizes.of(side).get(&stack.member.stack)).collect();
        of_these.iter().for_each(|of| *more.entry(*of).or_default() -= 1);
        of_these.iter().all(|of| more[of] >= 0)
    }
}

/// What one operator lost and another one that the same code calls gained: equal bytes in as many blocks, if one of both frees blocks
/// of these sizes where it holds less. Otherwise the bytes may be equal by chance: the states of an optimizer are as large as the
/// weights of a teacher that went.
pub(super) fn exchanged(
    all: &[OperatorStacks],
    devices: Sides<&DeviceProfile>,
    codes: Sides<&SnapshotCode<'_>>,
) -> Vec<Sides<Vec<UnpairedStack>>> {
    let mut alike = BTreeMap::<(bool, [u64; 2], Vec<Token>), Sides<Vec<&OperatorStacks>>>::new();
    for of in all {
        let change = of.change().and_then(|(side, change)| Some((side, change, of.held.of(side).first()?)));
        if let Some((side, change, first)) = change {
            let functions = calling_functions(first.member.stack, codes.of(side));
            if !functions.is_empty() {
                alike.entry((first.is_backward, change, functions)).or_default().of_mut(side).push(of);
            }
        }
    }
    alike.retain(|_, of| !of.before.is_empty() && !of.after.is_empty());
    if alike.is_empty() {
        return Vec::new();
    }
    let sizes = devices.map(|device| sizes_of_blocks(device));
    let mut exchanged = Vec::new();
    for Sides { before, after } in alike.into_values() {
        let mut gainers: Vec<_> = after.into_iter().take(MOST_ALIKE).collect();
        for loser in before.into_iter().take(MOST_ALIKE) {
            let found =
                gainers.iter().enumerate().find_map(|(at, gainer)| Some((at, exchange(loser, gainer, &sizes)?)));
            if let Some((at, same)) = found {
                gainers.remove(at);
                exchanged.push(same);
            }
        }
    }
    exchanged
}

/// What one operator lost and another one gained, if one of both frees blocks of these sizes.
fn exchange(
    loser: &OperatorStacks,
    gainer: &OperatorStacks,
    sizes: &Sides<BlockSizes>,
) -> Option<Sides<Vec<UnpairedStack>>> {
    let lost = without_partner(&loser.held).before;
    let gained = without_partner(&gainer.held).after;
    let are_some = !lost.is_empty() && !gained.is_empty();
    let is_freed = loser.frees(&lost, Side::Before, sizes) || gainer.frees(&gained, Side::After, sizes);
    (are_some && is_freed).then_some(Sides { before: lost, after: gained })
}

fn sizes_of_blocks(device: &DeviceProfile) -> BlockSizes {
    let mut sizes = BlockSizes::new();
    for class in &device.trace.classes {
        if let Some(stack) = class.origin.stack() {
            sizes.entry(stack).or_default().insert(class.request());
        }
    }
    sizes
}

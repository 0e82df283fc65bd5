//! The order of bodies: each after those that it refers to.

use super::{Folded, Item, index};

/// The state of a body while all are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Placed(u32),
}

/// The same sequence with its bodies in order, and without those that nothing refers to. `None` where a body holds
/// itself.
pub(super) fn ordered(folded: Folded) -> Option<Folded> {
    let Folded { items, mut bodies } = folded;
    let mut states = vec![State::New; bodies.len()];
    let mut order: Vec<u32> = Vec::with_capacity(bodies.len());
    // No recursion: rules may lie in rules as deep as there are rules.
    let mut open: Vec<u32> = referred(&items).collect();
    while let Some(&body) = open.last() {
        match states[body as usize] {
            State::New => {
                states[body as usize] = State::Open;
                for inner in referred(&bodies[body as usize]) {
                    match states[inner as usize] {
                        State::New => open.push(inner),
                        State::Open => return None,
                        State::Placed(_) => {}
                    }
                }
            }
            State::Open => {
                states[body as usize] = State::Placed(index(order.len()));
                order.push(body);
                open.pop();
            }
            State::Placed(_) => {
                open.pop();
            }
        }
    }
    let bodies = order.iter().map(|&body| moved(std::mem::take(&mut bodies[body as usize]), &states)).collect();
    Some(Folded { items: moved(items, &states), bodies })
}

/// The bodies that items refer to.
fn referred(items: &[Item]) -> impl Iterator<Item = u32> {
    items.iter().filter_map(|item| match item {
        Item::Loop { body, .. } => Some(*body),
        Item::One(_) => None,
    })
}

/// The items where bodies have new places.
fn moved(mut items: Vec<Item>, states: &[State]) -> Vec<Item> {
    for item in &mut items {
        if let Item::Loop { body, .. } = item
            && let State::Placed(place) = states[*body as usize]
        {
            *body = place;
        }
    }
    items
}

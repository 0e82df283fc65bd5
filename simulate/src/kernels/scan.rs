//! Kernels of `torch.cumsum` of whole numbers.

use alloc::vec::Vec;

use super::arguments::Arguments;
use super::number::{Number, Type};
use super::pattern::type_in;
use super::{Computed, Effect, MOST_COMPUTED};
use crate::device::values;

/// Kernel that adds up numbers one after the other.
pub(super) struct Scan {
    order: Order,
    element: Type,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// All elements. The arguments are operand, result, a state, the first tile, two of no interest, and the count.
    All,
    /// The elements of each row. The arguments are result, operand, rows, and elements of a row.
    Rows,
    /// Elements that come a stride apart. The arguments are result, operand, their outer and inner number, and elements
    /// of a column.
    Columns,
}

const NAMES: [(&str, Order); 5] = [
    ("_ZN2at6native32tensor_kernel_scan_innermost_dimI?St4plusI?EE", Order::Rows),
    ("_ZN2at6native28tensor_kernel_scan_outer_dimI?*St4plusI?EE", Order::Columns),
    ("_ZN*16DeviceScanKernelI*EPK?P?NS0_13ScanTileStateI?Lb1EEESt4plusI?ENS0_8NullTypeE", Order::All),
    (
        "_ZN*16DeviceScanKernelI*_10policy_hubI???*St4plusI?EE*EPK?P?NS0_13ScanTileStateI?Lb1EEES6_NS0_8NullTypeE",
        Order::All,
    ),
    (
        "_ZN*16DeviceScanKernelINS0_16DeviceScanPolicyI?St4plusI?EE*EPK?P?NS0_13ScanTileStateI?Lb1EEES4_NS0_8NullTypeE",
        Order::All,
    ),
];

/// Places of the elements that are added up, the operand and the result being of the same shape.
struct Work {
    operand: u64,
    result: u64,
    outer: usize,
    inner: usize,
    length: usize,
}

impl Scan {
    pub(super) fn named(name: &str) -> Option<Self> {
        let (order, element) = NAMES.iter().find_map(|(pattern, order)| Some((*order, type_in(pattern, name)?)))?;
        (element.is_whole() && element != Type::Bool).then_some(Self { order, element })
    }

    /// The memory that a launch changes. None where that is not known.
    pub(super) fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        let work = self.work(arguments)?;
        let count = work.outer.checked_mul(work.inner)?.checked_mul(work.length)?;
        let size = count.checked_mul(self.element.size()).filter(|size| *size <= MOST_COMPUTED)?;
        let effect = match values::known(work.operand, size) {
            Some(known) => Effect::Set(work.result, self.sums(&work, known)?),
            None => Effect::Forget(work.result, size as u64),
        };
        Some(alloc::vec![effect])
    }

    fn work(&self, arguments: &Arguments<'_>) -> Option<Work> {
        let addresses = [arguments.address(0)?, arguments.address(1)?];
        if self.order == Order::All {
            let last = arguments.number().checked_sub(1).filter(|&last| last == 6)?;
            if arguments.count(3)? > 0 {
                return None;
            }
            return Some(Work {
                operand: addresses[0],
                result: addresses[1],
                outer: 1,
                inner: 1,
                length: arguments.count(last)?,
            });
        }
        let rows = self.order == Order::Rows;
        let start = arguments.sized(5, self.element.size())?;
        (arguments.number() == 7 && start.iter().all(|&byte| byte == 0)).then_some(Work {
            operand: addresses[1],
            result: addresses[0],
            outer: arguments.count(2)?,
            inner: if rows { 1 } else { arguments.count(3)? },
            length: arguments.count(if rows { 3 } else { 4 })?,
        })
    }

    fn sums(&self, work: &Work, operand: Computed) -> Option<Computed> {
        let size = self.element.size();
        let mut bytes = operand.bytes;
        let row = work.inner * size;
        for outer in 0..work.outer {
            for place in 1..work.length {
                for inner in 0..work.inner {
                    let at = (outer * work.length + place) * row + inner * size;
                    let before = self.element.read(&bytes, at - row)?;
                    let sum = self.element.read(&bytes, at)?.plus(Number::Whole(1), before)?;
                    bytes[at..at + size].copy_from_slice(&self.element.bytes(sum)?);
                }
            }
        }
        Some(Computed { bytes, trust: operand.trust })
    }
}

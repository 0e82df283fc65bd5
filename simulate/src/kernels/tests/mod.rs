//! Launches as PyTorch makes them: names and arguments are those of its releases 2.2 to 2.15.

mod places;

use alloc::string::String;
use alloc::vec::Vec;

use super::arguments::Arguments;
use super::{Computed, Effect, Rule, Trust};
use crate::code::{self, Parameter};
use crate::device::values;
use crate::ffi::In;

/// Addresses of devices at which no other test has values.
const OUTPUT: u64 = 0x1000_5000_0000;
const INPUT: u64 = 0x1000_5100_0000;
const OTHER: u64 = 0x1000_5200_0000;

/// The memory that a launch changes. None where nothing is known of the kernel, or of the arguments.
fn effects(name: &str, arguments: &[&[u8]]) -> Option<Vec<Effect>> {
    let name = std::ffi::CString::new(name).unwrap();
    let parameters: Vec<Parameter> = arguments.iter().map(|bytes| Parameter { size: bytes.len() }).collect();
    let addresses: Vec<u64> = arguments.iter().map(|bytes| bytes.as_ptr() as u64).collect();
    let arguments = Arguments::new(&parameters, In::at_address(addresses.as_ptr() as u64), Some([1, 2, 1])).unwrap();
    Rule::of(&name)?.effects(&arguments)
}

fn longs(numbers: &[i64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn set(at: u64, bytes: &[u8]) {
    values::set(at, bytes.as_ptr() as u64, bytes.len() as u64);
}

fn written(at: u64, bytes: Vec<u8>) -> Option<Vec<Effect>> {
    Some(alloc::vec![Effect::Set(at, Computed { bytes, trust: Trust::Known })])
}

/// The name of a kernel for elements one after the other, with a function of one template argument.
fn vectorized(function: &str, tensors: usize) -> String {
    std::format!("_ZN2at6native29vectorized_elementwise_kernelILi4E{function}St5arrayIPcLm{tensors}EELb0EEEviT0_T1_")
}

/// A function with its own numbers on two elements of tensors, whose addresses are the places.
fn on_two_elements(function: &str, own: &[u8], places: &[u8]) -> Option<Vec<Effect>> {
    effects(&vectorized(function, places.len() / 8), &[&words(&[2]), own, places])
}

/// An address as an argument has it.
fn place(at: u64) -> Vec<u8> {
    longs(&[at as i64])
}

/// Whole numbers of eight bytes, each written for itself.
fn written_apart(numbers: &[i64]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (index, number) in (0..).zip(numbers) {
        effects.push(Effect::Set(OUTPUT + 8 * index, Computed { bytes: longs(&[*number]), trust: Trust::Known }));
    }
    effects
}

/// The name of the kernel of `torch.arange` for a type, which goes by a number.
fn range_kernel(element: &str) -> String {
    std::format!(
        "_ZN50_GLOBAL__N__2fa45684_17_RangeFactories_cu_38772b0829elementwise_kernel_with_indexIiZZZN2at6native15arange\
         _cuda_outERKN3c106ScalarES6_S6_RNS1_6TensorEENKUlvE_clEvENKUlvE{element}_clEvEUllE_EEvT_T0_PN15function_traitsI\
         SD_E11result_typeE"
    )
}

/// A reduction by an operator.
fn reduced(operator: &str, structure: &[u8]) -> Option<Vec<Effect>> {
    effects(
        &std::format!("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIlNS0_14func_wrapper_tIl{operator}"),
        &[structure],
    )
}

#[test]
fn a_fill_is_the_number_in_its_function() {
    let places = longs(&[OUTPUT as i64]);
    assert_eq!(on_two_elements("NS0_11FillFunctorIlEE", &longs(&[7]), &places), written(OUTPUT, longs(&[7, 7])));
    let found = on_two_elements("NS0_11FillFunctorIlEE", &longs(&[-1]), &places);
    assert_eq!(found, Some(alloc::vec![Effect::Fill(OUTPUT, 0xFF, 16)]));
}

#[test]
fn a_range_is_computed_from_its_start_and_step() {
    let arguments = [words(&[3]), longs(&[2, 3, 0x7FFF_0000]), longs(&[OUTPUT as i64])];
    let arguments = arguments.each_ref().map(Vec::as_slice);
    assert_eq!(effects(&range_kernel("2"), &arguments), written(OUTPUT, longs(&[2, 5, 8])));
    assert_eq!(effects(&range_kernel("1"), &arguments), written(OUTPUT, words(&[2, 5, 8])));
    assert_eq!(effects(&range_kernel("5"), &arguments), None, "of floating point");
    let [count, range, place] = arguments;
    assert_eq!(effects(&range_kernel("2"), &[count, &range[..16], place]), None, "a closure of another release");
}

#[test]
fn sums_and_comparisons_follow_from_their_operands() {
    set(INPUT, &longs(&[10, 20]));
    set(OTHER, &longs(&[1, 20]));
    let one = longs(&[OUTPUT as i64, INPUT as i64]);
    let two = longs(&[OUTPUT as i64, INPUT as i64, OTHER as i64]);
    assert_eq!(
        on_two_elements("NS0_21CUDAFunctorOnSelf_addIlEE", &longs(&[3, 2]), &one),
        written(OUTPUT, longs(&[16, 26]))
    );
    assert_eq!(
        on_two_elements("NS0_22CUDAFunctorOnOther_addIlEE", &longs(&[7, -1]), &one),
        written(OUTPUT, longs(&[-3, -13]))
    );
    assert_eq!(on_two_elements("NS0_15CUDAFunctor_addIlEE", &longs(&[-1]), &two), written(OUTPUT, longs(&[9, 0])));
    let product = "NS0_13AUnaryFunctorIlllNS0_15binary_internal10MulFunctorIlEEEE";
    assert_eq!(on_two_elements(product, &longs(&[0, 3]), &one), written(OUTPUT, longs(&[30, 60])));
    let file = "NS0_51_GLOBAL__N__68c48bfe_18_CompareEQKernel_cu_d8008c96";
    let equal = std::format!("NS0_13BinaryFunctorIllb{file}16CompareEqFunctorIlEEEE");
    assert_eq!(on_two_elements(&equal, &words(&[0]), &two), written(OUTPUT, alloc::vec![0, 1]));
    assert_eq!(on_two_elements(&equal, &words(&[1]), &two), written(OUTPUT, alloc::vec![1, 0]));
    let equal = std::format!("NS0_13AUnaryFunctorIllb{file}16CompareEqFunctorIlEEEE");
    assert_eq!(on_two_elements(&equal, &longs(&[0, 10]), &one), written(OUTPUT, alloc::vec![1, 0]));
    let quotient = "NS0_13BUnaryFunctorIlllZZZNS0_15binary_internal21div_floor_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE_cl\
                    EvENKUlvE2_clEvEUlllE_EE";
    assert_eq!(on_two_elements(quotient, &longs(&[0, -3]), &one), written(OUTPUT, longs(&[-4, -7])));
    assert_eq!(
        on_two_elements(quotient, &longs(&[0, 0]), &one),
        Some(alloc::vec![Effect::Forget(OUTPUT, 16)]),
        "by zero"
    );
    let rest = "NS0_13AUnaryFunctorIlllZZZNS0_21remainder_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE_clEvENKUlvE2_clEvEUl\
                llE_EE";
    assert_eq!(on_two_elements(rest, &longs(&[0, -3]), &one), written(OUTPUT, longs(&[7, 17])));
    let less = "ZNS0_21compare_scalar_kernelIlEEvRNS_18TensorIteratorBaseE6OpTypeET_EUllE_";
    assert_eq!(on_two_elements(less, &longs(&[3, 20, 0x7FFF_0000]), &one), written(OUTPUT, alloc::vec![1, 0]));
    assert_eq!(
        on_two_elements(less, &longs(&[9, 20, 0x7FFF_0000]), &one),
        Some(alloc::vec![Effect::Forget(OUTPUT, 2)]),
        "no operator"
    );
}

#[test]
fn conditions_choose_between_elements() {
    let input = INPUT + 0x6000;
    set(input, &[1, 0]);
    set(input + 0x100, &longs(&[10, 20]));
    set(input + 0x200, &longs(&[-1, -2]));
    let file = "NS0_49_GLOBAL__N__037c6ad9_16_TensorCompare_cu_71e06f4e";
    let choose = std::format!("ZZZ{file}17where_kernel_implERNS_14TensorIteratorEENKUlvE_clEvENKUlvE2_clEvEUlbmmE_");
    let places = longs(&[OUTPUT, input, input + 0x100, input + 0x200].map(|at| at as i64));
    assert_eq!(on_two_elements(&choose, &longs(&[0x7FFF_0000]), &places), written(OUTPUT, longs(&[10, -2])));
    let fill = std::format!(
        "ZZZ{file}18masked_fill_kernelERNS_14TensorIteratorERKN3c106ScalarEENKUlvE_clEvENKUlvE2_clEvEUllbE_"
    );
    let places = longs(&[OUTPUT, input + 0x100, input].map(|at| at as i64));
    assert_eq!(on_two_elements(&fill, &longs(&[7, 0x7FFF_0000]), &places), written(OUTPUT, longs(&[7, 20])));
    let clamp = std::format!(
        "ZZZ{file}19launch_clamp_scalarERNS_18TensorIteratorBaseEN3c106ScalarES6_NS0_6detail11ClampLimitsEENKUlvE_clEvENKUlv\
         E2_clEvEUllE_"
    );
    let places = longs(&[OUTPUT, input + 0x100].map(|at| at as i64));
    for (limits, expected) in [(0, [15, 20]), (1, [10, 15]), (2, [15, 18])] {
        assert_eq!(
            on_two_elements(&clamp, &longs(&[limits, 15, 18, 0x7FFF_0000]), &places),
            written(OUTPUT, longs(&expected)),
            "{limits}"
        );
    }
}

#[test]
fn an_operand_that_is_not_known_leaves_a_result_that_is_not_known() {
    let input = INPUT + 0x1000;
    set(input, &longs(&[10]));
    let places = longs(&[OUTPUT as i64, input as i64, input as i64]);
    let name = vectorized("NS0_15CUDAFunctor_addIlEE", 3);
    let of_two = effects(&name, &[&words(&[2]), &longs(&[1]), &places]);
    assert_eq!(of_two, Some(alloc::vec![Effect::Forget(OUTPUT, 16)]));
    values::doubt(input, 8);
    let doubtful = Computed { bytes: longs(&[20]), trust: Trust::Doubtful };
    let of_one = effects(&name, &[&words(&[1]), &longs(&[1]), &places]);
    assert_eq!(of_one, Some(alloc::vec![Effect::Set(OUTPUT, doubtful)]));
}

#[test]
fn a_position_that_is_not_known_moves_on_and_stays_unknown() {
    let input = INPUT + 0x1800;
    let places = longs(&[OUTPUT as i64, input as i64]);
    let name = vectorized("NS0_21CUDAFunctorOnSelf_addIlEE", 2);
    let moved = effects(&name, &[&words(&[1]), &longs(&[1, 1]), &places]).unwrap();
    let computed = Computed { bytes: longs(&[1]), trust: Trust::Unset };
    assert_eq!(moved, [Effect::Set(OUTPUT, computed.clone())]);
    values::set_computed(input, &computed);
    assert!(values::known(input, 8).is_none());
    assert_eq!(values::read_all(input, 8), Some(computed));
}

#[test]
fn conversions_say_their_types_in_two_arguments() {
    let input = INPUT + 0x2000;
    set(input, &longs(&[300, -1]));
    let name = "_ZN2at6native27unrolled_elementwise_kernelIZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_cl\
                EvENKUlvE_clEvEUlhE_St5arrayIPcLm2EELi4E23TrivialOffsetCalculatorILi1EjESB_NS0_6memory12LoadWithCastILi1EEENSC_13\
                StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
    let places = longs(&[OUTPUT as i64, input as i64]);
    let found = effects(name, &[&words(&[2]), &[0], &places, &[0], &[0], &words(&[4, 8]), &words(&[0, 1])]);
    assert_eq!(found, written(OUTPUT, alloc::vec![44, 255]));
    let equal = "_ZN2at6native27unrolled_elementwise_kernelINS0_13BinaryFunctorIffbNS0_51_GLOBAL__N__68c48bfe_18_CompareEQKernel_\
                 cu_d8008c9616CompareEqFunctorIfEEEESt5arrayIPcLm3EELi4E23TrivialOffsetCalculatorILi2EjESA_ILi1EjENS0_6memory12Loa\
                 dWithCastILi2EEENSD_13StoreWithCastILi1EEEEEviT_T0_T2_T3_T4_T5_";
    let fractions: Vec<u8> = [300.0_f32, 1.5].iter().flat_map(|number| number.to_le_bytes()).collect();
    set(input + 0x100, &fractions);
    let places = longs(&[OUTPUT as i64, input as i64, input as i64 + 0x100]);
    let types = words(&[0x0604, 8, 4]);
    let found = effects(equal, &[&words(&[2]), &words(&[0]), &places, &[0], &[0], &types, &words(&[11, 1])]);
    assert_eq!(found, written(OUTPUT, alloc::vec![1, 0]), "a whole number is compared as a fraction");
}

/// An `OffsetCalculator` of dimensions, each a size and a stride for each tensor.
fn offsets(dimensions: &[(u32, &[u32])], tensors: usize) -> Vec<u8> {
    let mut found = words(&[dimensions.len() as u32]);
    let mut strides = Vec::new();
    for (size, of_tensors) in dimensions {
        found.extend(words(&[*size, 0, 0]));
        strides.extend(words(of_tensors));
    }
    found.resize(4 + 25 * 12, 0xEE);
    found.extend(strides);
    found.resize(4 + 25 * 12 + 25 * 4 * tensors, 0xEE);
    found
}

#[test]
fn elements_that_lie_apart_are_found_by_their_strides() {
    let input = INPUT + 0x3000;
    set(input, &longs(&[0, 1, 2, 3, 4, 5]));
    // The transpose of 2 rows of 3: 3 rows of 2.
    let mut closure = offsets(&[(2, &[8, 24]), (3, &[16, 8])], 2);
    closure.extend(longs(&[OUTPUT as i64, input as i64, 0, 0x7FFF_0000]));
    let name = "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_kernel_cudaERNS_18Te\
                nsorIteratorBaseEENKUlvE1_clEvENKUlvE2_clEvEUllE_EEvS4_RKT_EUliE_EEviT1_";
    let found = effects(name, &[&words(&[6]), &closure]).unwrap();
    assert_eq!(found, written_apart(&[0, 3, 1, 4, 2, 5]));
    assert_eq!(effects(name, &[&words(&[6]), &closure[..closure.len() - 8]]), None, "a closure of another release");
    let converting =
        name.replace("22gpu_kernel_impl_nocastI", "15gpu_kernel_implI").replace("clEvEUllE_", "clEvEUlfE_");
    code::register(core::ptr::null(), c"22gpu_kernel_impl_nocastI", core::ptr::null());
    let mut closure = offsets(&[(2, &[4, 24]), (3, &[8, 8])], 2);
    closure.extend(longs(&[OUTPUT as i64, input as i64]));
    closure.extend([0xEE, 6, 4]);
    closure.resize(closure.len().next_multiple_of(8) + 8, 0);
    let found = effects(&converting, &[&words(&[2]), &closure]).unwrap();
    let [first, second] =
        [0.0_f32, 3.0].map(|number| Computed { bytes: number.to_le_bytes().into(), trust: Trust::Known });
    assert_eq!(found, [Effect::Set(OUTPUT, first), Effect::Set(OUTPUT + 4, second)]);
}

#[test]
fn a_reduction_goes_through_the_elements_of_each_result() {
    let input = INPUT + 0x4000;
    set(input, &longs(&[5, 1, 3, 2, 9, 4]));
    // Rows of three elements; results of eight bytes.
    let mut structure = longs(&[0, 0]);
    structure.extend(words(&[8, 3, 2]));
    structure.resize(16 + 64, 0);
    structure.extend(offsets(&[(3, &[8])], 1));
    structure.extend(offsets(&[(2, &[8, 24])], 2));
    structure.resize(structure.len().next_multiple_of(8), 0);
    structure.extend(longs(&[input as i64, OUTPUT as i64, 0, 0, 0, 0, 0]));
    structure.extend([0, 1, 0, 0, 1, 0, 0, 0]);
    assert_eq!(structure.len(), 1056);
    assert_eq!(reduced("NS0_13MaxNanFunctorIlEEEEjlLi4ELi4EEEEEvT1_", &structure), Some(written_apart(&[5, 9])));
    assert_eq!(reduced("NS0_13MinNanFunctorIlEEEEjlLi4EEEEEvT1_", &structure), Some(written_apart(&[1, 2])));
    assert_eq!(
        reduced("ZNS0_11sum_functorIlllEclERNS_14TensorIteratorEEUlllE_EEjlLi4ELi4EEEEEvT1_", &structure),
        Some(written_apart(&[9, 15]))
    );
    let mut partial = structure.clone();
    partial[1048] = 1;
    assert_eq!(reduced("NS0_13MaxNanFunctorIlEEEEjlLi4ELi4EEEEEvT1_", &partial), None, "it adds to an earlier result");
}

#[test]
fn elements_that_are_not_zero_are_counted_and_found() {
    let input = INPUT + 0x5000;
    set(input, &[0, 1, 0, 1]);
    let elements = longs(&[input as i64, 0]);
    let count = "_ZN14at_cuda_detail3cub28DeviceReduceSingleTileKernelI9NonZeroOpIbEEvT0_";
    let found = effects(count, &[&elements, &place(OUTPUT), &words(&[4]), &[0], &words(&[0])]);
    assert_eq!(found, written(OUTPUT, words(&[2])));
    // Of many elements, parts are counted first.
    let parts = "_ZN14at_cuda_detail3cub18DeviceReduceKernelI9NonZeroOpIbEEvT0_";
    let shares = words(&[3, 0, 2, 0]);
    let found = effects(parts, &[&elements, &place(OTHER), &longs(&[4]), &shares, &[0]]);
    let first = Effect::Set(OTHER, Computed { bytes: words(&[2]), trust: Trust::Known });
    assert_eq!(found, Some(alloc::vec![Effect::Fill(OTHER, 0, 12), first]));
    let sum = "_ZN14at_cuda_detail3cub28DeviceReduceSingleTileKernelINS0_18DeviceReducePolicyIiiNS0_3SumEE9Policy600EPiS6_iS3_iiEE\
               vT0_T1_T2_T3_T4_";
    set(input + 0x100, &words(&[2, 0, 5]));
    let arguments = [place(input + 0x100), place(OUTPUT), words(&[3]), alloc::vec![0], words(&[0])];
    assert_eq!(effects(sum, &arguments.each_ref().map(Vec::as_slice)), written(OUTPUT, words(&[7])));
    let largest = sum.replace("NS0_3SumE", "NS0_3MaxE");
    assert_eq!(effects(&largest, &arguments.each_ref().map(Vec::as_slice)), None);
    let select = "_ZN14at_cuda_detail3cub23DeviceSelectSweepKernelI9NonZeroOpIbEEvT0_";
    let places = [longs(&[0]), elements.clone(), place(OUTPUT), place(OTHER), place(0), alloc::vec![0], alloc::vec![0]];
    let arguments: Vec<Vec<u8>> = places.into_iter().chain([words(&[4]), words(&[1])]).collect();
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let indices = Effect::Set(OUTPUT, Computed { bytes: longs(&[1, 3]), trust: Trust::Known });
    let number = Effect::Set(OTHER, Computed { bytes: words(&[2]), trust: Trust::Known });
    assert_eq!(effects(select, &arguments), Some(alloc::vec![indices, number]));
}

#[test]
fn other_kernels_have_no_rule() {
    for name in [
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EELb0EEEviT0_T1_",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIN3c104HalfEEESt5arrayIPcLm1EELb0EEEviT0_T1_",
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_6MaxOpsIfEEjfLi4ELi4EEEEEvT1_",
        "_ZN2at6native32tensor_kernel_scan_innermost_dimIfSt4plusIfEEEvPT_PKS4_jjjS4_T0_",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_13BinaryFunctorImmmNS0_15binary_internal10MulFunctorImEEEE",
        "indexFuncSmallIndex",
        "",
    ] {
        let name = std::ffi::CString::new(name).unwrap();
        assert!(Rule::of(&name).is_none(), "{name:?}");
    }
}

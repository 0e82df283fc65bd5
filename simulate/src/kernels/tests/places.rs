//! Kernels that copy elements to other places, add them up on the way, or find where they are.

use super::*;

/// Words, in a field with room for more of them.
fn extents(numbers: &[u32], room: usize) -> Vec<u8> {
    let mut found = words(numbers);
    found.resize(4 * room, 0xEE);
    found
}

/// A tensor in a launch of `cat`.
struct Input {
    at: u64,
    first: u32,
    extent: u32,
    count: u32,
}

/// The tensors of a launch of `cat`, with sizes and strides of each if there are any.
fn inputs(tensors: &[Input], room: usize, strides: &[&[u32]]) -> Vec<u8> {
    let mut found = longs(&tensors.iter().map(|tensor| tensor.at as i64).collect::<Vec<_>>());
    found.resize(8 * room, 0xEE);
    found.extend(extents(&tensors.iter().map(|tensor| tensor.first).collect::<Vec<_>>(), room));
    found.extend(extents(&tensors.iter().map(|tensor| tensor.extent).collect::<Vec<_>>(), room));
    found.extend(extents(&tensors.iter().map(|tensor| tensor.count).collect::<Vec<_>>(), room));
    found.resize(21 * room, 0); // None is said to be contiguous.
    for of_tensor in strides {
        found.extend(words(of_tensor));
    }
    let described = if strides.is_empty() { 1 } else { room };
    found.resize((21 * room + 32 * described).next_multiple_of(8), 0xEE);
    found
}

fn cat(kernel: &str, types: &str, arguments: [&[u8]; 5]) -> Option<Vec<Effect>> {
    let file = "_ZN2at6native40_GLOBAL__N__f1f992fe_8_Shape_cu_49f7391c";
    effects(&std::format!("{file}{kernel}I{types}EEvPT_NS1_25CatArrInputTensorMetadataIS5_"), &arguments)
}

#[test]
fn tensors_are_copied_next_to_each_other() {
    // A matrix of two rows of one element, and one of two rows of two.
    let [one, two] = [INPUT + 0x10_000, INPUT + 0x11_000];
    let tensors = inputs(
        &[Input { at: one, first: 0, extent: 1, count: 2 }, Input { at: two, first: 1, extent: 2, count: 4 }],
        128,
        &[],
    );
    let result = words(&[2, 3, 0xEE, 0xEE, 3, 1, 0xEE, 0xEE]);
    let rest = [place(OUTPUT), result, words(&[1]), words(&[1])];
    let arguments: [&[u8]; 5] = [&rest[0], &tensors, &rest[1], &rest[2], &rest[3]];
    let expected = alloc::vec![
        Effect::Copy(OUTPUT, one, 8),
        Effect::Copy(OUTPUT + 24, one + 8, 8),
        Effect::Copy(OUTPUT + 8, two, 16),
        Effect::Copy(OUTPUT + 32, two + 16, 16),
    ];
    let opaque = "NS1_10OpaqueTypeILj8EEEjLi2ELi128ELi1ELi16E";
    assert_eq!(cat("35CatArrayBatchedCopy_alignedK_contig", opaque, arguments), Some(expected.clone()));
    assert_eq!(cat("36CatArrayBatchedCopy_aligned16_contig", "ljLi2ELi128ELi1E", arguments), Some(expected));
    assert_eq!(cat("35CatArrayBatchedCopy_alignedK_contig", &opaque.replace("128", "64"), arguments), None);
}

#[test]
fn tensors_that_are_copied_can_have_strides() {
    // The transposes of a row of two, twice.
    let [one, two] = [INPUT + 0x12_000, INPUT + 0x13_000];
    let strides: [&[u32]; 2] = [&[2, 1, 0, 0, 3, 1, 0, 0]; 2];
    let tensors = inputs(
        &[Input { at: one, first: 0, extent: 1, count: 2 }, Input { at: two, first: 1, extent: 1, count: 2 }],
        64,
        &strides,
    );
    let result = words(&[2, 2, 0, 0, 2, 1, 0, 0]);
    let rest = [place(OUTPUT), result, words(&[1]), words(&[1])];
    let found = cat(
        "19CatArrayBatchedCopy",
        "NS1_10OpaqueTypeILj4EEEjLi2ELi64ELi64E",
        [&rest[0], &tensors, &rest[1], &rest[2], &rest[3]],
    );
    let expected = alloc::vec![
        Effect::Copy(OUTPUT, one, 4),
        Effect::Copy(OUTPUT + 8, one + 12, 4),
        Effect::Copy(OUTPUT + 4, two, 4),
        Effect::Copy(OUTPUT + 12, two + 12, 4),
    ];
    assert_eq!(found, Some(expected));
}

#[test]
fn tensors_are_copied_in_pieces() {
    // Two rows of eight words, next to rows of four: pieces of four words.
    let [one, two] = [INPUT + 0x14_000, INPUT + 0x15_000];
    let tensors = inputs(
        &[Input { at: one, first: 0, extent: 8, count: 16 }, Input { at: two, first: 8, extent: 4, count: 8 }],
        128,
        &[],
    );
    let result = words(&[2, 3, 0, 0, 3, 1, 0, 0]);
    let rest = [place(OUTPUT), result, words(&[1]), words(&[1])];
    let types = "NS1_10OpaqueTypeILj4EEEjLi2ELi128ELi1ELi16ELi4E";
    let found = cat("30CatArrayBatchedCopy_vectorized", types, [&rest[0], &tensors, &rest[1], &rest[2], &rest[3]]);
    let expected = alloc::vec![
        Effect::Copy(OUTPUT, one, 32),
        Effect::Copy(OUTPUT + 48, one + 32, 32),
        Effect::Copy(OUTPUT + 32, two, 16),
        Effect::Copy(OUTPUT + 80, two + 16, 16),
    ];
    assert_eq!(found, Some(expected));
}

#[test]
fn sums_on_the_way_go_along_a_dimension() {
    let input = INPUT + 0x16_000;
    set(input, &longs(&[1, 2, 3, 4, 5, 6]));
    let [from, to, zero] = [place(input), place(OUTPUT), longs(&[0])];
    let rows = "_ZN2at6native32tensor_kernel_scan_innermost_dimIlSt4plusIlEEEvPT_PKS4_jjjS4_T0_";
    let found = effects(rows, &[&to, &from, &words(&[2]), &words(&[3]), &words(&[5]), &zero, &[0]]);
    assert_eq!(found, written(OUTPUT, longs(&[1, 3, 6, 4, 9, 15])));
    let columns = "_ZN2at6native28tensor_kernel_scan_outer_dimIljSt4plusIlEEEvPT_PKS4_jjjS4_T1_";
    let found = effects(columns, &[&to, &from, &words(&[1]), &words(&[3]), &words(&[2]), &zero, &[0]]);
    assert_eq!(found, written(OUTPUT, longs(&[1, 2, 3, 5, 7, 9])));
    for all in [
        "_ZN14at_cuda_detail3cub6detail4scan16DeviceScanKernelINS2_10policy_hubIllljSt4plusIlEE10Policy1000EPKlPlNS0_13ScanTileSta\
         teIlLb1EEES6_NS0_8NullTypeEjlLb0ESE_EEvT0_T1_T2_iT3_T4_T5_",
        "_ZN14at_cuda_detail3cub16DeviceScanKernelINS0_16DeviceScanPolicyIlSt4plusIlEE9Policy900EPKlPlNS0_13ScanTileStateIlLb1EEES4_\
         NS0_8NullTypeEjlLb0EEEvT0_T1_T2_iT3_T4_T5_",
        "_ZN14at_cuda_detail3cub16DeviceScanKernelINS0_16DeviceScanPolicyIlE9Policy600EPKlPlNS0_13ScanTileStateIlLb1EEESt4plusIlENS0\
         _8NullTypeEilEEvT0_T1_T2_iT3_T4_T5_",
    ] {
        let state = place(OTHER);
        let arguments: [&[u8]; 7] = [&from, &to, &state, &words(&[0]), &[0], &[0], &words(&[4])];
        assert_eq!(effects(all, &arguments), written(OUTPUT, longs(&[1, 3, 6, 10])), "{all}");
        let products = all.replace("St4plusIlE", "St10multipliesIlE");
        assert_eq!(effects(&products, &arguments), None);
        let exclusive = all.replace("NS0_8NullTypeE", "NS0_10InputValueIlPlEE");
        assert_eq!(effects(&exclusive, &arguments), None);
    }
}

/// A search for an extreme element by an operator.
fn extremum(operator: &str, structure: &[u8]) -> Option<Vec<Effect>> {
    let kernel = "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIl";
    effects(&std::format!("{kernel}{operator}IlEEjlLi4ELi4EEEEEvT1_"), &[structure])
}

/// A whole number of eight bytes that is known.
fn number(at: u64, number: i64) -> Effect {
    Effect::Set(at, Computed { bytes: longs(&[number]), trust: Trust::Known })
}

#[test]
fn an_extreme_element_is_found_with_its_place() {
    let input = INPUT + 0x17_000;
    set(input, &longs(&[5, 9, 9, 2, 1, 1]));
    let mut structure = longs(&[0, i64::MIN, 0]);
    structure.extend(words(&[16, 3, 2]));
    structure.resize(24 + 64, 0);
    structure.extend(offsets(&[(3, &[8])], 1));
    structure.extend(offsets(&[(2, &[8, 24])], 2));
    structure.resize(structure.len().next_multiple_of(8), 0);
    structure.extend(longs(&[input as i64, OUTPUT as i64, OTHER as i64, 0, 0, 0, 0]));
    structure.extend([0, 1, 0, 0, 2, 0, 0, 0]);
    assert_eq!(structure.len(), 1064);
    let found = extremum("NS0_6MaxOps", &structure).unwrap();
    assert_eq!(found, [number(OUTPUT, 9), number(OTHER, 1), number(OUTPUT + 8, 2), number(OTHER + 8, 0)]);
    assert_eq!(extremum("NS0_9ArgMinOps", &structure), None, "it has one result only");
    structure[1060] = 1;
    assert_eq!(extremum("NS0_9ArgMinOps", &structure), Some(written_apart(&[0, 1])));
}

/// The closure of `tensor[indices]`, for two indices of one dimension: a column of a matrix with rows of 24 bytes.
fn by_indices(result: u64, operand: u64, indices: u64) -> Vec<u8> {
    let mut closure = offsets(&[(2, &[8, 0, 8])], 3);
    closure.resize(608, 0xEE);
    closure.extend(longs(&[result as i64, operand as i64, 1, indices as i64]));
    closure.resize(832, 0xEE);
    closure.extend(longs(&[3]));
    closure.resize(1032, 0xEE);
    closure.extend(longs(&[24]));
    closure.resize(1240, 0xEE);
    closure
}

const BY_INDICES: &str = "_ZN2at6native24index_elementwise_kernelILi128ELi4EZNS0_16gpu_index_kernelIZNS0_17index_kernel_implINS0_10OpaqueTypeILi8EEEE\
     EvRNS_18TensorIteratorBaseEN3c108ArrayRefIlEESA_EUlPcPKclE_EEvS7_SA_SA_RKT_bEUliE_EEvlT1_";

#[test]
fn elements_are_copied_from_where_indices_say() {
    let [operand, indices] = [INPUT + 0x18_000, INPUT + 0x19_000];
    set(indices, &longs(&[2, -3]));
    let closure = by_indices(OUTPUT, operand, indices);
    let expected = alloc::vec![Effect::Copy(OUTPUT, operand + 48, 8), Effect::Copy(OUTPUT + 8, operand, 8)];
    assert_eq!(effects(BY_INDICES, &[&longs(&[2]), &closure]), Some(expected.clone()));
    assert_eq!(effects(BY_INDICES, &[&longs(&[2]), &closure[..1232]]), None, "a closure of another release");
    values::doubt(indices, 8);
    let doubtful = effects(BY_INDICES, &[&longs(&[2]), &closure]).unwrap();
    assert_eq!(doubtful[..2], [Effect::Copy(OUTPUT, operand + 48, 8), Effect::Doubt(OUTPUT, 8)]);
    set(indices, &longs(&[2, 3]));
    assert_eq!(effects(BY_INDICES, &[&longs(&[2]), &closure]), None, "there is no third row");
    values::forget(indices, 8);
    assert_eq!(effects(BY_INDICES, &[&longs(&[2]), &closure]), None, "an index is not known");
}

#[test]
fn of_two_elements_that_go_to_one_place_nobody_knows_which_stays() {
    let [operand, indices] = [INPUT + 0x1A_000, INPUT + 0x1B_000];
    let put = BY_INDICES.replace("17index_kernel_implI", "21index_put_kernel_implI");
    let mut closure = by_indices(OUTPUT, operand, indices);
    closure[304..316].copy_from_slice(&words(&[0, 8, 8]));
    set(indices, &longs(&[2, 0]));
    let expected = alloc::vec![Effect::Copy(OUTPUT + 48, operand, 8), Effect::Copy(OUTPUT, operand + 8, 8)];
    assert_eq!(effects(&put, &[&longs(&[2]), &closure]), Some(expected));
    set(indices, &longs(&[2, 2]));
    let found = effects(&put, &[&longs(&[2]), &closure]).unwrap();
    assert!(found.contains(&Effect::Doubt(OUTPUT + 48, 8)), "{found:?}");
}

/// A `TensorInfo` of two dimensions.
fn tensor(at: u64, sizes: [u32; 2], strides: [u32; 2]) -> Vec<u8> {
    [place(at), extents(&sizes, 25), extents(&strides, 25), words(&[2, 0xEE])].concat()
}

#[test]
fn slices_are_selected() {
    let [operand, indices] = [INPUT + 0x1C_000, INPUT + 0x1D_000];
    set(indices, &longs(&[2, 0]));
    // Two columns of a matrix with two rows of three elements.
    let result = tensor(OUTPUT, [2, 1], [2, 1]);
    let matrix = tensor(operand, [2, 1], [3, 1]);
    let chosen = tensor(indices, [2, 1], [1, 1]);
    let [one, two, three] = [words(&[1]), words(&[2]), longs(&[3])];
    let few = "_ZN2at6native44_GLOBAL__N__b23ef953_11_Indexing_cu_89862edb21indexSelectSmallIndexIlljLi2ELi2ELin2EEEvNS_4cuda6deta\
               il10TensorInfoIT_T1_EENS5_IKS6_S7_EENS5_IKT0_S7_EEiiS7_l";
    let expected = alloc::vec![
        Effect::Copy(OUTPUT, operand + 16, 8),
        Effect::Copy(OUTPUT + 16, operand + 40, 8),
        Effect::Copy(OUTPUT + 8, operand, 8),
        Effect::Copy(OUTPUT + 24, operand + 24, 8),
    ];
    assert_eq!(effects(few, &[&result, &matrix, &chosen, &one, &one, &two, &three]), Some(expected.clone()));
    let many = few.replace("21indexSelectSmallIndex", "21indexSelectLargeIndex");
    let total = words(&[4]);
    assert_eq!(effects(&many, &[&result, &matrix, &chosen, &one, &one, &total, &two, &three]), Some(expected));
}

#[test]
fn rows_are_gathered() {
    let [operand, indices] = [INPUT + 0x1E_000, INPUT + 0x1F_000];
    set(indices, &longs(&[1, 1]));
    let rows = "_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb";
    let places = [place(OUTPUT), place(operand), place(indices), words(&[2])];
    let sizes = [longs(&[16]), longs(&[2]), longs(&[32]), longs(&[16])];
    let arguments: Vec<&[u8]> = places.iter().chain(&sizes).map(Vec::as_slice).chain([&[0][..]]).collect();
    let expected = alloc::vec![Effect::Copy(OUTPUT, operand + 32, 16), Effect::Copy(OUTPUT + 16, operand + 32, 16)];
    assert_eq!(effects(rows, &arguments), Some(expected));
}

#[test]
fn elements_are_gathered_along_a_dimension() {
    let [operand, indices] = [INPUT + 0x20_000, INPUT + 0x21_000];
    set(indices, &longs(&[2, 1]));
    // One element of each of two rows of three.
    let mut closure = offsets(&[(2, &[8, 24, 8])], 3);
    closure.resize(608, 0xEE);
    closure.extend(longs(&[indices as i64, 3, 0xEE, OUTPUT as i64, 1, 2, operand as i64]));
    let gather = "_ZN2at6native34_scatter_gather_elementwise_kernelILi128ELi8EZNS0_36_cuda_scatter_gather_internal_kernelILb0ENS0_1\
                  0OpaqueTypeILi8EEElEclINS0_12TensorAssignEEEvRNS_14TensorIteratorElllRKT_EUliE_EEviT1_";
    let expected = alloc::vec![Effect::Copy(OUTPUT, operand + 16, 8), Effect::Copy(OUTPUT + 8, operand + 32, 8)];
    assert_eq!(effects(gather, &[&words(&[2]), &closure]), Some(expected.clone()));
    assert_eq!(effects(&gather.replace("EEElEcl", "EEEEcl"), &[&words(&[2]), &closure]), Some(expected));
    assert_eq!(effects(&gather.replace("12TensorAssign", "9ReduceAdd"), &[&words(&[2]), &closure]), None);
}

#[test]
fn indices_are_repeated_and_split_into_dimensions() {
    let [repeats, sums] = [INPUT + 0x22_000, INPUT + 0x23_000];
    set(repeats, &longs(&[2, 0, 1]));
    set(sums, &longs(&[2, 2, 3]));
    let repeat = "_Z19compute_cuda_kernelIlEvPKT_PKlPS0_ll";
    let places = [place(repeats), place(sums), place(OUTPUT), longs(&[3]), longs(&[3])];
    let found = effects(repeat, &places.each_ref().map(Vec::as_slice));
    assert_eq!(found, written(OUTPUT, longs(&[0, 0, 2])));
    let indices = INPUT + 0x24_000;
    set(indices, &longs(&[1, 5]));
    let split =
        "_ZN2at6native43_GLOBAL__N__a7e516da_10_Nonzero_cu_cba1aaa013write_indicesIlEEvPlNS1_10TensorDimsIT_EEiS5_S3_l";
    let mut sizes = longs(&[2, 3]);
    sizes.resize(200, 0xEE);
    let places = [place(indices), sizes, words(&[2]), longs(&[2]), longs(&[0]), longs(&[-1])];
    let found = effects(split, &places.each_ref().map(Vec::as_slice));
    assert_eq!(found, written(indices, longs(&[0, 1, 1, 2])));
}

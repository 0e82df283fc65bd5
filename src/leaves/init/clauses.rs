//! The clauses of a requirement, such as `<2.2`.

/// Whether some release of a version, such as 2.1, keeps a clause, such as `==2.1.0` or `<2.2`. A clause that is not understood
/// excludes nothing.
pub(super) fn keeps(clause: &str, (major, minor): (u32, u32)) -> bool {
    let release = clause.trim_start_matches(['=', '<', '>', '~', '!', '^', ' ']);
    let mut parts = release.split(['.', '+', '=']).map(|part| part.parse::<u32>().ok());
    let Some(of_major) = parts.next().flatten() else { return true };
    let of_minor = parts.next().flatten();
    let patch = parts.next().flatten();
    // Without a minor version, all of a major one are equal to it.
    let order = (major, of_minor.map(|_| minor)).cmp(&(of_major, of_minor));
    match clause[..clause.len() - release.len()].trim() {
        "<" => order.is_lt() || patch > Some(0) && order.is_eq(),
        "<=" => order.is_le(),
        ">" if patch.is_none() => order.is_gt(),
        "~=" if patch.is_none() => order.is_ge(),
        ">" | ">=" | "^" => order.is_ge(),
        "~=" | "~" | "==" | "===" | "=" | "" => order.is_eq(),
        "!=" => order.is_ne() || patch.is_some(),
        _ => true,
    }
}

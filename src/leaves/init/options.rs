//! The arguments without which programs do not start, as they declare them in their text for argparse.

/// The arguments that a program requires and a command does not give.
pub(super) fn required(text: &str, given: Option<&str>) -> Vec<String> {
    let words: Vec<&str> = given.unwrap_or_default().split([' ', '=']).collect();
    let calls = text.split("add_argument(").skip(1).map(call);
    let required = calls.filter_map(|call| Some((name(call)?, call))).filter(|(name, call)| is_required(name, call));
    // Arguments without a name are taken for given where there is a command.
    let open = required.filter(|(name, _)| !words.contains(name) && (given.is_none() || name.starts_with('-')));
    open.map(|(name, _)| name.to_owned()).collect()
}

/// The longest name that a call declares: `--device`.
fn name(call: &str) -> Option<&str> {
    let names = call.split(',').map(|part| part.trim().trim_matches(['"', '\'']));
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    names.take_while(|name| !name.is_empty() && name.chars().all(is_name)).max_by_key(|name| name.len())
}

fn is_required(name: &str, call: &str) -> bool {
    let call = call.split_whitespace().collect::<String>().replace('\'', "\"");
    let open = ["nargs=\"?\"", "nargs=\"*\"", "REMAINDER"];
    let is_optional = name.starts_with('-') || open.iter().any(|part| call.contains(part));
    call.contains("required=True") || !is_optional
}

/// The arguments of a call, up to its end.
fn call(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_without_which_a_program_does_not_start_are_named() {
        let text = "a.add_argument('data', help=f(1))\na.add_argument('--config', '-c', required = True)\n\
                    a.add_argument('--lr', default=f(1))\na.add_argument('out', nargs='?')\n\
                    a.add_argument('opts', nargs=argparse.REMAINDER)\n";
        assert_eq!(required(text, None), ["data", "--config"]);
        assert_eq!(required(text, Some("x --config=a")), Vec::<String>::new());
        assert_eq!(required(text, Some("x")), ["--config"]);
    }
}

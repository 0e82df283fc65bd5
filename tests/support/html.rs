//! What a reader of a page sees: its markup and its data, without the style and the script, which are the tool's own.

#![allow(clippy::unwrap_used, missing_docs, dead_code, unreachable_pub)]

use data_encoding::BASE64;
use flate2::read::ZlibDecoder;
use serde_json::Value;

use super::readers::require_printable;

/// Nothing that a reader could see has characters that nobody sees.
pub fn check_html(page: &str) {
    let (start, rest) = page.split_once("<style>").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (body, rest) = rest.split_once(DATA).unwrap();
    let (data, rest) = rest.split_once("</script><script>").unwrap();
    let (_, end) = rest.split_once("</script>").unwrap();
    for part in [start, body, data, end] {
        require_printable(part, "html");
    }
    check_data(&self::data(page));
}

const DATA: &str = "<script id=\"data\" type=\"text/plain\">";

/// The data that the script of a page draws from, read as that does.
pub fn data(page: &str) -> Value {
    let (_, rest) = page.split_once(DATA).unwrap();
    let (text, _) = rest.split_once("</script>").unwrap();
    serde_json::from_reader(ZlibDecoder::new(&*BASE64.decode(text.as_bytes()).unwrap())).unwrap()
}

fn check_data(data: &Value) {
    match data {
        Value::String(text) => require_printable(text, "the data of a page"),
        Value::Array(all) => all.iter().for_each(check_data),
        Value::Object(all) => all.iter().for_each(|(key, value)| {
            require_printable(key, "a key in the data of a page");
            check_data(value);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

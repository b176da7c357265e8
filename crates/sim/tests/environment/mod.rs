//! What tests are asked for by environment variables.

/// The number that a variable has, if it is set.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text}, a number is expected")))
}

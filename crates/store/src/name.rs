//! Which names a store accepts: one path component, so that no name can leave its directory.

use std::io;

/// `NAME_MAX` of Linux: longer names are refused before the kernel sees them.
const LONGEST: usize = 255;

/// Refuses what is not one path component, as every [`Dir`](crate::Dir) must.
pub fn check_name(name: &str) -> io::Result<()> {
    let one_component = !name.is_empty()
        && name.len() <= LONGEST
        && name != "."
        && name != ".."
        && !name.bytes().any(|byte| byte == b'/' || byte == 0);
    if one_component {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "a name in a store is one path component"))
    }
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn a_name_is_one_component() {
        for good in ["a", ".hidden", "..a", "a.b", "日本", &"x".repeat(255)] {
            assert!(check_name(good).is_ok(), "{good:?}");
        }
        for bad in ["", ".", "..", "/", "a/b", "../a", "a/", "a\0b", &"x".repeat(256)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}

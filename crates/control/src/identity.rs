//! Identities that Heddle makes itself: for the farm, for servers without a UUID, for procedures.

use std::fs::File;
use std::io::{self, Read};

use crate::peers::Secret;

/// A random UUID (version 4).
pub(crate) fn uuid() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format_uuid(bytes))
}

/// What the routers of a farm show each other: 32 random bytes in hexadecimal.
pub(crate) fn secret() -> io::Result<Secret> {
    let mut bytes = [0u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Secret::new(&text))
}

fn format_uuid(mut bytes: [u8; 16]) -> String {
    // RFC 9562: version 4, variant 10.
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_form_and_differ() {
        assert_eq!(
            format_uuid([0xFF; 16]),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
        assert_eq!(format_uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
        let read = || uuid().expect("every machine has /dev/urandom");
        assert_ne!(read(), read());
    }
}

//! The login to a NATS server: a password, a token, or the proof of a key (an NKEY, or a JWT with one).
//!
//! Source: «NATS Protocol», «NKeys» and «JWT» of NATS' documentation. Invariants: the seed of a key never leaves this
//! process; the server gets a signature of what it asked for.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ed25519_dalek::{Signer, SigningKey};
use serde_json::Value;

use crate::account::{Account, first_line, secret};
use crate::undelivered::{Undelivered, later};

/// The kinds of keys, as their first bits have them.
const SEED: u8 = 18 << 3;
const USER: u8 = 20 << 3;

/// The bytes of a seed: two with the kinds, the seed, a checksum.
const SEED_BYTES: usize = 2 + 32 + 2;

/// Adds to the options of CONNECT what the account logs in with; `nonce` is what the server wants to have signed.
pub(super) fn log_in(
    account: &Account,
    nonce: Option<&str>,
    options: &mut Value,
) -> Result<(), Undelivered> {
    if !account.token_file.is_empty() {
        options["auth_token"] = first_line(&account.token_file)?.into();
    }
    if !account.nkey_file.is_empty() {
        let file = &account.nkey_file;
        let seed = secret(file)?;
        let seed = seed.lines().map(str::trim).find(|it| it.starts_with("SU"));
        let key = key(seed, file)?;
        options["nkey"] = public(&key).into();
        options["sig"] = signature(&key, nonce, file)?.into();
    }
    if !account.credentials_file.is_empty() {
        let file = &account.credentials_file;
        let text = secret(file)?;
        let jwt = behind(&text, "BEGIN NATS USER JWT");
        let jwt = jwt.ok_or_else(|| later(format!("{file}: there is no user's JWT in it")))?;
        let key = key(behind(&text, "BEGIN USER NKEY SEED"), file)?;
        options["jwt"] = jwt.into();
        options["sig"] = signature(&key, nonce, file)?.into();
    }
    let (user, password) = account.read()?;
    if !user.is_empty() {
        options["user"] = user.into();
        options["pass"] = password.into();
    }
    Ok(())
}

/// The first line with something behind the one with these words.
fn behind<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    let mut lines = text
        .lines()
        .map(str::trim)
        .skip_while(|it| !it.contains(words));
    lines.next()?;
    lines.find(|line| !line.is_empty())
}

fn signature(key: &SigningKey, nonce: Option<&str>, file: &str) -> Result<String, Undelivered> {
    let nonce = nonce.ok_or_else(|| {
        later(format!(
            "the NATS server asks for no signature: it knows no keys, and {file} has one"
        ))
    })?;
    Ok(BASE64URL.encode(key.sign(nonce.as_bytes()).to_bytes()))
}

/// The key of a user's seed.
fn key(seed: Option<&str>, file: &str) -> Result<SigningKey, Undelivered> {
    let key = seed.and_then(read_seed);
    key.ok_or_else(|| {
        later(format!(
            "{file}: there is no seed of a user's NKEY in it (SU…)"
        ))
    })
}

fn read_seed(text: &str) -> Option<SigningKey> {
    let bytes = base32_read(text)?;
    let bytes: [u8; SEED_BYTES] = bytes.try_into().ok()?;
    let (told, sum) = bytes.split_at(SEED_BYTES - 2);
    let kind = (told[0] & 7) << 5 | told[1] >> 3;
    let is_right = told[0] & !7 == SEED && kind == USER && crc16(told).to_le_bytes() == *sum;
    let seed: [u8; 32] = told[2..].try_into().ok()?;
    is_right.then(|| SigningKey::from_bytes(&seed))
}

/// A user's public key, as servers have it.
fn public(key: &SigningKey) -> String {
    let mut bytes = vec![USER];
    bytes.extend(key.verifying_key().to_bytes());
    let sum = crc16(&bytes);
    bytes.extend(sum.to_le_bytes());
    base32(&bytes)
}

const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32(bytes: &[u8]) -> String {
    let (mut text, mut bits, mut count) = (String::new(), 0_u32, 0);
    for &byte in bytes {
        bits = bits << 8 | u32::from(byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            text.push(char::from(LETTERS[(bits >> count & 31) as usize]));
        }
    }
    if count > 0 {
        text.push(char::from(LETTERS[(bits << (5 - count) & 31) as usize]));
    }
    text
}

fn base32_read(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let five = LETTERS.iter().position(|&it| it == letter)?;
        bits = bits << 5 | u32::try_from(five).ok()?;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// The checksum of XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for &byte in bytes {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = match crc & 0x8000 {
                0 => crc << 1,
                _ => crc << 1 ^ 0x1021,
            };
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `nk -gen user -pubout`, as NATS' documentation shows it.
    const SEED_TEXT: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
    const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

    #[test]
    fn a_seed_has_the_public_key_that_everybody_gets() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        let key = read_seed(SEED_TEXT).expect("a seed");
        assert_eq!(public(&key), PUBLIC);
        let mut torn = SEED_TEXT.to_owned();
        torn.replace_range(9..10, "B");
        assert!(read_seed(&torn).is_none(), "its checksum is another");
        assert!(read_seed(PUBLIC).is_none() && read_seed("").is_none());
    }

    #[test]
    fn credentials_have_a_token_and_a_seed() {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\neyJ0.e30.c2ln\n------END NATS USER JWT------\n\n\
             ************* IMPORTANT *************\n\n-----BEGIN USER NKEY SEED-----\n{SEED_TEXT}\n\
             ------END USER NKEY SEED------\n"
        );
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("user.creds");
        std::fs::write(&file, text).expect("it is written");
        let account = Account {
            credentials_file: file.display().to_string(),
            ..Account::default()
        };
        let mut options = serde_json::json!({});
        assert_eq!(log_in(&account, Some("nonce"), &mut options), Ok(()));
        assert_eq!(options["jwt"], "eyJ0.e30.c2ln");
        let signature = options["sig"].as_str().expect("a signature");
        let bytes: [u8; 64] = BASE64URL
            .decode(signature)
            .expect("Base64")
            .try_into()
            .expect("64 bytes");
        let key = read_seed(SEED_TEXT).expect("a seed").verifying_key();
        let signature = ed25519_dalek::Signature::from_bytes(&bytes);
        assert!(key.verify_strict(b"nonce", &signature).is_ok());
        let refused = log_in(&account, None, &mut options);
        assert!(matches!(refused, Err(Undelivered::Later(why, _)) if why.contains("no keys")));
    }
}

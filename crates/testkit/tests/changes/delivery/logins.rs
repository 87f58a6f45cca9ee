//! Brokers that are logged in to, inside TLS: what is written is there, a wrong secret is said, and no secret is shown.

use std::path::Path;

use ed25519_dalek::SigningKey;
use serde_json::json;
use testkit::certificates::Authority;
use testkit::{Client, Farm, wait_until};

use super::brokers::{farm, number};
use super::kafka::{Guard, Kafka, PASSWORD, USER};
use super::nats::{JETSTREAM, Nats};
use crate::reading::{SOON, metrics};

/// The key of a user, which nobody else has.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

/// A file with a secret, as a flag's value.
fn secret(dir: &Path, name: &str, text: &str) -> String {
    let file = dir.join(name);
    std::fs::write(&file, format!("{text}\n")).expect("it is written");
    file.display().to_string()
}

/// A sink with these flags has this row delivered, and goes.
fn delivers(farm: &Farm, client: &mut Client, to: &str, flags: &[&str], row: usize) {
    let words = [&["sink", "create", "log", to, "--tables", "d.t"], flags].concat();
    farm.json(&words);
    client.run(&format!("INSERT INTO d.t VALUES ({row}, 0)"));
    let shown = || farm.json(&["sink", "show", "log"])[0].clone();
    wait_until(SOON * 2, "the row is delivered", || {
        let shown = shown();
        shown["delivered"].as_u64().is_some_and(|it| it >= 3)
    });
    let said = [shown().to_string(), farm.stderr(), metrics(farm)].concat();
    for secret in ["n4ts-s3cret", "n4ts-t0ken", SEED, PASSWORD] {
        assert!(!said.contains(secret), "{said}");
    }
    farm.json(&["sink", "drop", "log"]);
}

/// A sink with these flags fails, and says why.
fn fails(farm: &Farm, to: &str, flags: &[&str], why: &str) {
    let words = [&["sink", "create", "log", to, "--tables", "d.t"], flags].concat();
    farm.json(&words);
    // A sink that has nothing to deliver asks its target all the same, with the next heartbeat.
    let mut error = String::new();
    wait_until(SOON * 2, why, || {
        let shown = farm.json(&["sink", "show", "log"]);
        error = shown[0]["error"].as_str().unwrap_or_default().to_owned();
        error.contains(why)
    });
    assert!(
        !error.contains(PASSWORD) && !error.contains("s3cret"),
        "{error}"
    );
    farm.json(&["sink", "drop", "log"]);
}

#[test]
fn jetstream_is_entered_by_every_kind_of_login() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    nats.make_stream("farm");
    let Some((farm, mut client)) = farm() else {
        return;
    };
    let to = format!("nats://127.0.0.1:{}/farm", nats.port);
    let authority = Authority::new("nats");
    let server = authority.sign("server", &["127.0.0.1"]);
    let own = authority.sign("heddle", &["heddle"]);
    let show = |path: &Path| path.display().to_string();
    let tls = format!(
        "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: true }}\n",
        show(&server.certificate),
        show(&server.key),
        show(&authority.file())
    );
    let (ca, certificate, key) = (
        show(&authority.file()),
        show(&own.certificate),
        show(&own.key),
    );
    let inside = ["--tls", "--target_ca", &ca];
    let known = [
        &inside[..],
        &["--target_cert", &certificate, "--target_key", &key],
    ]
    .concat();
    let dir = farm.dir();
    let password = secret(&dir, "password", "n4ts-s3cret");
    let token = secret(&dir, "token-of-nats", "n4ts-t0ken");
    let seed = secret(&dir, "seed", SEED);
    let wrong = secret(&dir, "wrong", "n4ts-s3cret-of-another");
    let user = "authorization { users = [ { user: heddle, password: \"n4ts-s3cret\" } ] }\n";
    let by_key = format!("authorization {{ users = [ {{ nkey: {PUBLIC} }} ] }}\n{tls}");
    let cases: [(&str, Vec<&str>); 4] = [
        (user, vec!["--user", "heddle", "--password_file", &password]),
        (
            "authorization { token: \"n4ts-t0ken\" }\n",
            vec!["--token_file", &token],
        ),
        (&tls, known.clone()),
        (&by_key, [&known[..], &["--nkey_file", &seed]].concat()),
    ];
    for (row, (settings, flags)) in cases.iter().enumerate() {
        nats.kill();
        nats.start_guarded(&format!("{JETSTREAM}{settings}"));
        delivers(&farm, &mut client, &to, flags, row);
    }
    fails(&farm, &to, &[], "--tls");
    fails(&farm, &to, &inside, "NATS");
    nats.kill();
    nats.start_guarded(&format!("{JETSTREAM}{user}"));
    let flags = ["--user", "heddle", "--password_file", &wrong];
    fails(&farm, &to, &flags, "Authorization Violation");
    fails(&farm, &to, &known, "has no TLS");
    nats.kill();
    nats.start_again();
    let all = nats.read("farm");
    let rows: Vec<i64> = all.iter().filter_map(|(_, it)| number(it)).collect();
    assert_eq!(rows, [0, 1, 2, 3], "each once, in its order");
}

/// Keys and tokens as `nsc` makes them.
mod tokens {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
    use ed25519_dalek::{Signer, SigningKey};
    use serde_json::{Value, json};

    /// The first bytes of public keys.
    pub const OPERATOR: u8 = 14 << 3;
    pub const ACCOUNT: u8 = 0;
    pub const USER: u8 = 20 << 3;

    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

    fn encoded(mut bytes: Vec<u8>) -> String {
        let mut crc = 0_u16;
        for &byte in &bytes {
            crc ^= u16::from(byte) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 == 0 {
                    crc << 1
                } else {
                    crc << 1 ^ 0x1021
                };
            }
        }
        bytes.extend(crc.to_le_bytes());
        let bits: Vec<u8> = bytes
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
            .collect();
        let letter = |five: &[u8]| {
            let number = (0..5).fold(0, |all, at| all << 1 | five.get(at).copied().unwrap_or(0));
            char::from(LETTERS[usize::from(number)])
        };
        bits.chunks(5).map(letter).collect()
    }

    pub fn public(kind: u8, key: &SigningKey) -> String {
        encoded([&[kind][..], &key.verifying_key().to_bytes()].concat())
    }

    pub fn seed(kind: u8, key: &SigningKey) -> String {
        let kinds = [18 << 3 | kind >> 5, (kind & 31) << 3];
        encoded([&kinds[..], &key.to_bytes()].concat())
    }

    /// Says something about somebody.
    pub fn token(issuer: (u8, &SigningKey), subject: &str, says: Value) -> String {
        let head = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
        let body = json!({
            "jti": "heddle", "iat": 1_700_000_000, "iss": public(issuer.0, issuer.1), "name": "heddle",
            "sub": subject, "nats": says,
        });
        let parts = [head, body].map(|it| BASE64URL.encode(it.to_string()));
        let signed = parts.join(".");
        let signature = issuer.1.sign(signed.as_bytes()).to_bytes();
        format!("{signed}.{}", BASE64URL.encode(signature))
    }
}

#[test]
fn nats_is_entered_by_credentials() {
    let Some(mut nats) = Nats::start() else {
        return;
    };
    let Some((farm, _)) = farm() else {
        return;
    };
    let [operator, account, user, other] = [1, 2, 3, 4].map(|it| SigningKey::from_bytes(&[it; 32]));
    let of_operator = tokens::public(tokens::OPERATOR, &operator);
    let of_account = tokens::public(tokens::ACCOUNT, &account);
    let all = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
    });
    let by_operator = (tokens::OPERATOR, &operator);
    let settings = format!(
        "operator: {}\nresolver: MEMORY\nresolver_preload: {{ {of_account}: {} }}\n",
        tokens::token(
            by_operator,
            &of_operator,
            json!({ "type": "operator", "version": 2 })
        ),
        tokens::token(
            by_operator,
            &of_account,
            json!({ "type": "account", "version": 2, "limits": all }),
        ),
    );
    let says = json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {} });
    let of_user = tokens::public(tokens::USER, &user);
    let token = tokens::token((tokens::ACCOUNT, &account), &of_user, says);
    let credentials = |name: &str, key: &SigningKey| {
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------",
            tokens::seed(tokens::USER, key)
        );
        secret(&farm.dir(), name, &text)
    };
    nats.kill();
    nats.start_guarded(&settings);
    let to = format!("nats://127.0.0.1:{}/farm", nats.port);
    let right = credentials("right.creds", &user);
    // The login is over when JetStream is asked, which this server does not have.
    fails(
        &farm,
        &to,
        &["--credentials_file", &right],
        "JetStream is not enabled",
    );
    let wrong = credentials("wrong.creds", &other);
    fails(
        &farm,
        &to,
        &["--credentials_file", &wrong],
        "Authorization Violation",
    );
}

#[test]
fn kafka_is_entered_by_every_mechanism_inside_tls() {
    let authority = Authority::new("kafka");
    let server = authority.sign("server", &["127.0.0.1"]);
    let own = authority.sign("heddle", &["heddle"]);
    let guard = Guard {
        own: &server,
        authority: &authority.file(),
    };
    let Some(kafka) = Kafka::start_guarded(&guard) else {
        return;
    };
    let Some((farm, mut client)) = farm() else {
        return;
    };
    kafka.make_topic("farm", "3");
    let to = format!("kafka://127.0.0.1:{}/farm", kafka.secure_port);
    let dir = farm.dir();
    let password = secret(&dir, "password", PASSWORD);
    let wrong = secret(&dir, "wrong", "kafka-s3cret-of-another");
    let show = |path: &Path| path.display().to_string();
    let (ca, certificate, key) = (
        show(&authority.file()),
        show(&own.certificate),
        show(&own.key),
    );
    let account = [
        "--tls",
        "--target_ca",
        &ca,
        "--target_cert",
        &certificate,
        "--target_key",
        &key,
        "--user",
        USER,
    ];
    let right = [&account[..], &["--password_file", &password]].concat();
    let mechanisms = ["", "scram-sha-256", "SCRAM-SHA-512", "plain"];
    for (row, mechanism) in mechanisms.into_iter().enumerate() {
        let by = match mechanism {
            "" => vec![],
            mechanism => vec!["--mechanism", mechanism],
        };
        let flags = [&right[..], &by].concat();
        delivers(&farm, &mut client, &to, &flags, row);
    }
    let of_another = [&account[..], &["--password_file", &wrong]].concat();
    farm.json(&[&["sink", "create", "wrong", &to][..], &of_another].concat());
    client.run("INSERT INTO d.t VALUES (100, 0)");
    wait_until(SOON * 2, "a refusal", || {
        let shown = farm.json(&["sink", "show", "wrong"]);
        let error = shown[0]["error"].as_str().unwrap_or_default().to_owned();
        assert!(!error.contains("s3cret"), "{error}");
        error.contains("the login is refused")
    });
    let mut rows: Vec<i64> = kafka
        .read("farm")
        .iter()
        .filter_map(|(.., event)| number(event))
        .collect();
    rows.sort_unstable();
    assert_eq!(rows, [0, 1, 2, 3]);
}

#[test]
fn what_cannot_be_right_about_a_broker_is_refused() {
    let Some((farm, _)) = farm() else {
        return;
    };
    for (words, why) in [
        (&["kafka://h/t", "--nkey_file", "f"][..], "NATS"),
        (&["nats://h/t", "--mechanism", "plain"], "Kafka"),
        (
            &["kafka://h/t", "--user", "u", "--mechanism", "gssapi"],
            "gssapi",
        ),
        (&["file:x", "--tls"], "brokers"),
        (&["kafka://h/t", "--format", "parquet"], "files"),
        (&["kafka://h/t", "--target_ca", "f"], "tls"),
        (&["nats://h/t", "--tls", "--target_key", "f"], "together"),
        (
            &["file:x", "--format", "parquet", "--types", "debezium"],
            "types",
        ),
    ] {
        let words = [&["sink", "create", "x"], words].concat();
        let output = farm.command(&words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}

//! `heddle grants`: the GRANT statements for Heddle's accounts, before there is a router that could look.

use crate::cli::Grants;
use crate::failure::Failure;
use crate::printing;

/// Prints the statements, a comment in front of those of each feature.
///
/// # Errors
/// There is no such release, feature or account: exit 2.
pub fn run(flags: &Grants) -> Result<(), Failure> {
    let heddle = account(&flags.account)?;
    let replication = account(&flags.replication)?;
    let features: Vec<&str> = flags.features.iter().map(String::as_str).collect();
    let all = control::grants(&flags.version, &features, &heddle).map_err(Failure::usage)?;
    let mut text = String::new();
    for (title, statements) in all {
        text.push_str(&format!("-- {title}\n"));
        for statement in statements {
            text.push_str(&format!("{statement};\n"));
        }
    }
    let statement = control::replication_grant(&replication);
    text.push_str(&format!(
        "-- the account with which replicas connect to their primary\n{statement};\n"
    ));
    printing::put(&text);
    Ok(())
}

/// `USER@HOST` as GRANT has it.
fn account(text: &str) -> Result<String, Failure> {
    let legal = |part: &str| !part.is_empty() && !part.contains(['\'', '\\', '`', '"', '\n']);
    match text.rsplit_once('@') {
        Some((user, host)) if legal(user) && legal(host) => Ok(format!("'{user}'@'{host}'")),
        _ => Err(Failure::usage(format!(
            "{text:?} is no account: write USER@HOST without quotes, for example heddle@10.0.0.%"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::account;

    #[test]
    fn accounts_are_quoted() {
        let read = |text| account(text).map_err(|error| error.text);
        assert_eq!(
            read("heddle@10.0.0.%"),
            Ok("'heddle'@'10.0.0.%'".to_owned())
        );
        for bad in ["heddle", "@%", "x@", "a'b@%"] {
            assert!(
                read(bad).is_err_and(|error| error.contains("USER@HOST")),
                "{bad}"
            );
        }
    }
}

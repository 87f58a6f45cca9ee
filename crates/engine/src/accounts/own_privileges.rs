//! What the account of a link may do on its server, asked of the server itself.

use crate::accounts::needed::{self, Feature, Held, Lack};
use crate::error::Error;
use crate::link::{Link, text_at};

const OPERATION: &str = "show the privileges of the account that Heddle uses";

/// What the account of a link lacks, and the statements that give it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    pub lacks: Vec<Lack>,
    /// The account, as GRANT has it.
    account: String,
}

impl Lacking {
    pub fn is_empty(&self) -> bool {
        self.lacks.is_empty()
    }

    /// What of this a feature lacks.
    pub fn of(&self, feature: Feature) -> Lacking {
        self.only(|lack| lack.feature == feature)
    }

    /// What of this is for features without which no farm can be.
    pub fn essential(&self) -> Lacking {
        self.only(|lack| lack.feature.is_essential())
    }

    fn only(&self, is: impl Fn(&Lack) -> bool) -> Lacking {
        let lacks = self.lacks.iter().filter(|lack| is(lack));
        Lacking {
            lacks: lacks.cloned().collect(),
            account: self.account.clone(),
        }
    }

    /// The account, and the privileges by their features.
    pub fn text(&self) -> String {
        let lacks = needed::described(&self.lacks);
        format!(
            "the account {} that Heddle uses lacks {lacks}",
            self.account
        )
    }

    /// The GRANT statements.
    pub fn cure(&self) -> String {
        needed::cure(&self.lacks, &self.account)
    }
}

/// What the account of a link lacks for these features.
///
/// # Errors
/// The server does not answer.
pub async fn lacking(
    link: &mut Link,
    features: &[Feature],
    timeout_ms: u64,
) -> Result<Lacking, Error> {
    let version = link.version().clone();
    let rows = link.rows(OPERATION, "SHOW GRANTS", timeout_ms).await?;
    let lines: Vec<String> = rows.iter().filter_map(|row| text_at(row, 0)).collect();
    let held = Held::read(lines.iter().map(String::as_str));
    let lacks = needed::lacks(&version, features, &held);
    if lacks.is_empty() {
        return Ok(Lacking::default());
    }
    let account = link
        .cell(OPERATION, "SELECT CURRENT_USER()", timeout_ms)
        .await?;
    Ok(Lacking {
        lacks,
        account: spelled(&account.unwrap_or_default()),
    })
}

/// Refuses what an account may not do, before anything is done of it: servers hide what an account may not
/// see instead of saying so.
///
/// # Errors
/// The account lacks a privilege; the text names it, and the statement that gives it.
pub(crate) async fn demand(
    link: &mut Link,
    feature: Feature,
    operation: &'static str,
    timeout_ms: u64,
) -> Result<(), Error> {
    let lacking = lacking(link, &[feature], timeout_ms).await?;
    if lacking.is_empty() {
        return Ok(());
    }
    Err(Error::Refused {
        operation,
        server: link.address().to_owned(),
        number: ACCESS_DENIED,
        message: lacking.text(),
        cure: format!("; run there: {}", lacking.cure()),
    })
}

/// ER_SPECIFIC_ACCESS_DENIED_ERROR.
const ACCESS_DENIED: u16 = 1227;

/// `user@host` as GRANT has it.
fn spelled(account: &str) -> String {
    let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
    let quoted = |part: &str| format!("'{}'", part.replace('\'', "''"));
    format!("{}@{}", quoted(user), quoted(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_spelled_as_grants_have_them() {
        assert_eq!(spelled("heddle@%"), "'heddle'@'%'");
        assert_eq!(spelled("o'b@c@10.0.0.%"), "'o''b@c'@'10.0.0.%'");
    }
}

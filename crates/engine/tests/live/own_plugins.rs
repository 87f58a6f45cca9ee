//! By which plugins Heddle's own account may log in to servers on its machine.

use crate::root::{MS, login};
use engine::{Link, Login};
use farm::Engine;
use testkit::{Release, Server};

/// Where the driver logs in by itself, and where it cannot.
#[tokio::test]
async fn its_account_may_have_any_plugin() {
    for release in [Release::Installed, Release::MySqlNewer] {
        let Some(server) = Server::start(release) else {
            continue;
        };
        let mut root = server.client();
        let ways: &[&str] = match server.engine() {
            Engine::MariaDb if root.query("INSTALL SONAME 'auth_ed25519'").is_ok() => &[
                "VIA ed25519 USING PASSWORD('secret')",
                "VIA ed25519 USING PASSWORD('other') OR mysql_native_password USING PASSWORD('secret')",
            ],
            Engine::MariaDb => &["BY 'secret'"],
            Engine::MySql => &[
                "WITH mysql_native_password BY 'secret'",
                "WITH caching_sha2_password BY 'secret'",
                "WITH sha256_password BY 'secret'",
            ],
        };
        for (number, way) in ways.iter().enumerate() {
            root.run(&format!("CREATE USER own{number}@'%' IDENTIFIED {way}"));
            let own = |password: &str| Login {
                user: format!("own{number}"),
                password: password.to_owned(),
                ..login(&server)
            };
            let link = Link::open(&own("secret"), MS).await;
            assert!(link.is_ok(), "{way}: {:?}", link.err());
            let wrong = Link::open(&own("wrong"), MS).await.err();
            let said = wrong.expect("not the password").to_string();
            assert!(said.contains("1045"), "{way}: {said}");
        }
    }
}

//! Who answers where a server is known to be.

use engine::{Link, Login};
use farm::Engine;
use testkit::{Release, Server};

use crate::root::{MS, login};

async fn another_engine_is_refused(release: Release) {
    let Some(server) = Server::start(release) else {
        return;
    };
    for known in [Engine::MariaDb, Engine::MySql] {
        let login = Login {
            engine: Some(known),
            ..login(&server)
        };
        let opened = Link::open(&login, MS).await.err();
        let is_stranger = matches!(opened, Some(engine::Error::Stranger { .. }));
        assert_eq!(is_stranger, known != server.engine(), "{opened:?}");
    }
}

#[tokio::test]
async fn another_engine_is_refused_on_mariadb() {
    another_engine_is_refused(Release::Installed).await;
}

#[tokio::test]
async fn another_engine_is_refused_on_mysql() {
    another_engine_is_refused(Release::newest_mysql()).await;
}

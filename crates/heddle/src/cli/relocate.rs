//! `heddle meta import` and `heddle meta move`: a farm goes from one store to another, while no router
//! runs.
//!
//! What is copied is whole before the old store is marked, so an interruption loses nothing: either
//! store may be copied again. Revisions go on above those of the old store, since servers remember the
//! greatest number of a leadership that they were told.

use std::path::Path;

use control::{Contents, read_to_leave, seal};
use meta::{Embedded, Etcd, Store};

use crate::cli::{Import, Move, Place};
use crate::failure::Failure;
use crate::printing::say;
use crate::router::runtime;
use crate::settings::{self, Settings};
use crate::store;
use crate::store::state_dir;

/// Added to the revision of an export: the farm may have gone on for a while after it was made.
const REVISIONS_SINCE: u64 = 1_000_000;

/// One of the two kinds of stores.
enum Opened {
    Embedded(Embedded),
    Etcd(Box<Etcd>),
}

impl Opened {
    async fn embedded(settings: &Settings) -> Result<Opened, Failure> {
        let state = &settings.state_dir;
        state_dir::prepare(state)?;
        let store = Embedded::open(state).map_err(Failure::new)?;
        Ok(Opened::Embedded(store))
    }

    async fn etcd(settings: &Settings) -> Result<Opened, Failure> {
        let Some(access) = store::access(settings)? else {
            return Err(Failure::usage(
                "no etcd is named; set etcd in the settings file, or give --etcd URL,…",
            ));
        };
        let store = Etcd::connect(access).await.map_err(Failure::new)?;
        Ok(Opened::Etcd(Box::new(store)))
    }

    fn store(&self) -> &dyn Store {
        match self {
            Opened::Embedded(store) => store,
            Opened::Etcd(store) => &**store,
        }
    }

    /// Takes a farm in.
    async fn take(&self, contents: &Contents) -> Result<(), Failure> {
        contents.write(self.store()).await?;
        let above = contents.revision.saturating_add(REVISIONS_SINCE);
        let raised = match self {
            Opened::Embedded(store) => store.raise_revisions(above).await,
            Opened::Etcd(store) => store.raise_revisions(above).await,
        };
        raised.map_err(Failure::new)
    }
}

/// Writes an export into the store of the settings.
///
/// # Errors
/// The file is no export, or the store holds another farm, is in use or cannot be written.
pub fn import(flags: &Import) -> Result<(), Failure> {
    let settings = read(&flags.place)?;
    let shown = flags.file.display();
    let text = std::fs::read_to_string(&flags.file)
        .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    let contents = Contents::parse(&text).map_err(|wrong| {
        Failure::new(format!(
            "{shown} is no export ({wrong}); make one with `heddle meta export --json`"
        ))
    })?;
    runtime()?.block_on(async {
        let to = if settings.etcd.0.is_empty() {
            Opened::embedded(&settings).await?
        } else {
            Opened::etcd(&settings).await?
        };
        to.take(&contents).await?;
        remember(&settings, &contents)?;
        let count = contents.entries.len();
        say(format!("imported {count} keys into {}", place(&settings)));
        Ok(())
    })
}

/// Moves the farm to the other store.
///
/// # Errors
/// There is no farm, or another one where it shall go; a store is in use or cannot be used.
pub fn relocate(flags: &Move) -> Result<(), Failure> {
    let settings = read(&flags.place)?;
    let config = flags.place.config.display();
    let mut embedded = settings.clone();
    embedded.etcd.0.clear();
    let (file, etcd) = (place(&embedded), place(&settings));
    let to_etcd = flags.to == "etcd";
    if to_etcd && !Embedded::is_in(&settings.state_dir) {
        return Err(Failure::new(format!(
            "there is no farm in {file}; a farm begins in etcd by `heddle serve --etcd URL,…`"
        )));
    }
    runtime()?.block_on(async {
        let etcd_store = Opened::etcd(&settings).await?;
        let file_store = Opened::embedded(&embedded).await?;
        let (from, to, whither, next) = if to_etcd {
            let next = format!("set etcd in {config} and start the routers");
            (file_store, etcd_store, etcd, next)
        } else {
            let next = format!("remove etcd from {config} and start one router");
            (etcd_store, file_store, file, next)
        };
        let contents = read_to_leave(from.store()).await?;
        to.take(&contents).await?;
        let left = format!("it was moved to {whither}; `heddle meta move` moves it back");
        seal(from.store(), &left).await?;
        if to_etcd {
            remember(&settings, &contents)?;
        }
        let count = contents.entries.len();
        say(format!("moved {count} keys to {whither}"));
        say(format!("next: {next}"));
        Ok(())
    })
}

fn remember(settings: &Settings, contents: &Contents) -> Result<(), Failure> {
    let id = contents.farm_id().unwrap_or_default();
    store::remember(settings, &settings.state_dir, &id)
}

fn read(place: &Place) -> Result<Settings, Failure> {
    let mut settings = settings::read(&place.config).map_err(Failure::new)?;
    store::name_etcd(&mut settings, place.etcd.as_deref())?;
    for assignment in &place.set {
        settings.assign(assignment).map_err(Failure::usage)?;
    }
    Ok(settings)
}

/// For people.
fn place(settings: &Settings) -> String {
    if settings.etcd.0.is_empty() {
        let file: &Path = &settings.state_dir;
        return format!("the state file in {}", file.display());
    }
    let urls = settings.etcd.0.join(",");
    format!("etcd ({urls}, keys {}/…)", settings.etcd_prefix.0)
}

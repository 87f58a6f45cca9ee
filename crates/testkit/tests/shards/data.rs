//! The rows that the tables of `test/shards` begin with, as the tuples of an INSERT.

use crate::dice::Dice;

#[path = "data_broadcast.rs"]
mod broadcast;
#[path = "data_shop.rs"]
mod shop;
#[path = "data_ssb.rs"]
mod ssb;
#[path = "data_tpc.rs"]
mod tpc;

/// Rows of one table, each as `(1, 'a')` with all columns in their order.
pub type Rows = Vec<String>;

/// The rows of every table of this database, by the tables' names.
pub fn rows(database: &str) -> Vec<(&'static str, Rows)> {
    let mut dice = Dice::new(20_260_101);
    match database {
        "broadcast" => broadcast::rows(&mut dice),
        "shop" => shop::rows(&mut dice),
        "ssb" => ssb::ssb(&mut dice),
        "tpch" => tpc::h(&mut dice),
        "tpcc" => tpc::c(&mut dice),
        other => panic!("no rows are known for {other}"),
    }
}

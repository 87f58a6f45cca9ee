//! Uses sqlx or diesel, by its argument, as Rust services do: migrations, prepared statements and their
//! caches, pools, transactions, streams, errors. Prints what it saw, step by step.

mod of_diesel;
mod of_sqlx;

use std::env;
use std::fmt::Debug;

fn setting(name: &str) -> String {
    env::var(format!("COMPAT_{name}")).unwrap_or_default()
}

fn url() -> String {
    format!(
        "mysql://{}:{}@{}:{}/{}",
        setting("USER"),
        setting("PASSWORD"),
        setting("HOST"),
        setting("PORT"),
        setting("DATABASE")
    )
}

fn say(value: impl Debug) {
    println!("{value:?}");
}

const TEXT: &str = "naïve 日本語 🧵 'q' \\ ?";

#[tokio::main]
async fn main() {
    match env::args().nth(1).as_deref() {
        Some("diesel") => of_diesel::run(),
        _ => of_sqlx::run().await,
    }
}

//! `heddle up`, from the first start to the death of everything.

mod config;
mod depth;
mod fill;
mod life;
mod minutes;
mod mysql;
mod outcomes;
mod panics;
mod parallel;
mod rejoin;
mod rules;

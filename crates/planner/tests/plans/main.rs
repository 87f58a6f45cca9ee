//! Statements, where they go, and the texts that are made of them.

mod advised;
mod broadcast;
mod depth;
mod farm_of_views;
mod gathered;
mod keys;
mod made;
mod misplaced;
mod places;
mod reading;
mod views;

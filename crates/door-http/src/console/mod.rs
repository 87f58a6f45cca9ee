//! The web console: its files, and the live picture of the farm that it shows.
//!
//! The files say nothing about the farm and are everybody's. What the console shows it asks for with the bearer token
//! that its user gave, as the command line does: the picture at [`live::PATH`], everything else by commands. There is
//! no cookie, so a page of another site can make a browser send nothing that opens anything.

pub(crate) mod assets;
mod frames;
pub(crate) mod live;
mod patch;
mod picture;
mod severity;
mod traffic;

pub(crate) use live::Live;

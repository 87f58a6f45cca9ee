//! `heddle doctor`: what a router knows of itself and its machine ([`premises`]), and the command ([`face`]).

mod face;
mod flags;
mod premises;

pub use face::run;
pub use flags::Flags;
pub use premises::ThisRouter;

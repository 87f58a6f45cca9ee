//! `heddle apply` as a consumer that the farm knows, and into servers of the other engine.

mod engines;
mod subscribed;

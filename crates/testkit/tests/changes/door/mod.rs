//! `GET /v1/changes` at the HTTP door: who may have it, by which HTTP it comes, and what its lines say besides values.

mod answers;
mod circumstances;
mod tls;

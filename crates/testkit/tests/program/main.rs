//! The program on its machine and beside others: files, signals, stores, HTTP, Fabric, packages.

mod at_rest;
mod doctor;
mod doctor_faults;
mod doctor_planted;
mod fabric;
mod fabric_clients;
mod fabric_import;
mod farm_tables;
mod flight;
mod handover;
mod http;
mod media;
mod package;
mod php;
mod router_tls;
mod seeds;
mod sockets;
mod store;
mod systemd;
mod top;

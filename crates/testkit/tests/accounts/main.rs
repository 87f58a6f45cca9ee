//! Accounts as servers have them: who logs in, by which plugin, with which roles and rights.

mod auth;
mod entrance;
mod expired;
mod identity;
mod least_privilege;
mod logins;
mod plugins;
mod proxy_servers;
mod roles;

//! The control plane towards other releases, and by an account with few privileges.

mod later_mysql;
mod other_mariadb;
#[allow(dead_code, reason = "each binary uses a part of it")]
#[path = "../plane/mod.rs"]
mod plane;
mod privileges;

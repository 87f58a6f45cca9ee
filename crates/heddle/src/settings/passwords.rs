//! Passwords that do not stand in the settings: in files of their own, and in systemd's credentials.

use std::path::Path;

use super::{Given, OptionalPath, Settings};

/// Far above any password.
const FILE_BYTES_MAX: u64 = 65_536;

/// A file's password: all of it but the end of its last line.
///
/// # Errors
/// The file cannot be read, is empty or is no text; the text names it.
pub(super) fn read(file: &Path) -> Result<String, String> {
    let shown = file.display();
    let cannot = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let bytes = std::fs::metadata(file).map_err(cannot)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(format!("{shown} has {bytes} bytes: it is no password"));
    }
    let text = std::fs::read_to_string(file).map_err(cannot)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(format!("{shown} is empty: write the password into it"));
    }
    Ok(text.to_owned())
}

/// A password among the settings.
struct Slot<'a> {
    name: &'static str,
    file: &'a OptionalPath,
    password: &'a mut String,
}

impl Settings {
    /// Reads the passwords whose files are named, and those that systemd hands over: the credential of a
    /// password's name, in `credentials`, where neither it nor its file is set.
    ///
    /// # Errors
    /// A password is given twice, or a file cannot be used; one line for the first.
    pub fn read_passwords(&mut self, credentials: Option<&Path>) -> Result<(), String> {
        let slots = [
            Slot {
                name: "etcd_password",
                file: &self.etcd_password_file,
                password: &mut self.etcd_password,
            },
            Slot {
                name: "scratch_password",
                file: &self.scratch_password_file,
                password: &mut self.scratch_password,
            },
            Slot {
                name: "admin_password",
                file: &self.admin_password_file,
                password: &mut self.admin_password,
            },
            Slot {
                name: "fabric_password",
                file: &self.fabric_password_file,
                password: &mut self.fabric_password,
            },
            Slot {
                name: "otlp_headers",
                file: &self.otlp_headers_file,
                password: &mut self.otlp_headers,
            },
            Slot {
                name: "replication_password",
                file: &self.replication_password_file,
                password: &mut self.replication_password,
            },
        ];
        for slot in slots {
            let name = slot.name;
            let credential = credentials.map(|dir| dir.join(name));
            let credential = credential.filter(|file| file.exists());
            let is_set = !slot.password.is_empty();
            let (file, from) = match (&slot.file.0, credential) {
                (Some(_), _) if is_set => {
                    return Err(format!("set {name} or {name}_file, not both"));
                }
                (Some(file), _) => (file.clone(), format!("{name}_file")),
                (None, Some(file)) if !is_set => (file, "systemd's credential".to_owned()),
                _ => continue,
            };
            *slot.password = read(&file).map_err(|error| format!("{name}: {error}"))?;
            let value = slot.password.clone();
            self.given.insert(name, Given { value, from });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::shown;

    #[test]
    fn passwords_come_from_files_and_credentials() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |name: &str, text: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, text).expect("written");
            file.display().to_string()
        };
        write("replication_password", "from systemd");
        write("etcd_password", "not this");
        let mut settings = Settings::default();
        let file = write("mine", " two words \r\n");
        settings.preset("admin_password_file", &file, "a test");
        settings.preset("etcd_password", "said", "a test");
        let read = settings.read_passwords(Some(dir.path()));
        assert_eq!(read, Ok(()));
        assert_eq!(settings.admin_password, " two words ");
        assert_eq!(settings.replication_password, "from systemd");
        assert_eq!(settings.etcd_password, "said");
        for row in shown(&settings) {
            assert!(!["said", " two words ", "from systemd"].contains(&&*row.value));
        }
    }

    #[test]
    fn a_password_that_cannot_be_had_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        let empty = dir.path().join("empty");
        std::fs::write(&empty, "\n").expect("written");
        let error = |file: &Path, password: &str| {
            let mut settings = Settings::default();
            let file = file.display().to_string();
            settings.preset("admin_password_file", &file, "a test");
            settings.preset("admin_password", password, "a test");
            settings.read_passwords(None).expect_err("wrong")
        };
        assert!(error(&empty, "").contains("is empty"));
        assert!(error(&dir.path().join("none"), "").contains("cannot read"));
        assert!(error(&empty, "x").contains("not both"));
    }
}

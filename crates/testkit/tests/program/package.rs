//! The Debian package: what is in it, and that its parts agree with each other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::farm::heddle;
use testkit::skip;

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    here.expect("the workspace is two levels up").to_owned()
}

/// What a command that must succeed prints.
#[track_caller]
fn said(command: &mut Command) -> String {
    let output: Output = command.output().expect("the command can be run");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The unit starts the packed program with the packed settings, and lets it do what it needs and no more.
#[track_caller]
fn is_right(unit: &str) {
    let command = "/usr/bin/heddle serve --config /etc/heddle/heddle.toml";
    assert!(unit.contains(&format!("ExecStart={command}\n")), "{unit}");
    assert!(
        unit.contains(&format!("ExecReload={command} --check\n")),
        "{unit}"
    );
    for line in [
        "StartLimitIntervalSec=0",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "ProtectSystem=strict",
        "MemoryDenyWriteExecute=yes",
        "SystemCallFilter=@system-service io_uring_setup io_uring_enter io_uring_register",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}: {unit}");
    }
}

#[test]
fn the_package_has_its_parts() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return skip(&"dpkg-deb is not installed");
    }
    let dir = tempfile::tempdir().expect("a directory");
    said(
        Command::new(root().join("scripts/package.sh"))
            .arg(heddle())
            .arg(dir.path())
            // Quick; what is in it is the same.
            .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
            .env("DPKG_DEB_COMPRESSOR_LEVEL", "1"),
    );
    let made = fs::read_dir(dir.path()).expect("readable").next();
    let package = made.expect("a package").expect("an entry").path();
    let list = said(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for (mode, path) in [
        ("-rwxr-xr-x", "./usr/bin/heddle"),
        ("-rw-r--r--", "./usr/lib/systemd/system/heddle.service"),
        ("-rw-r-----", "./etc/heddle/heddle.toml"),
        ("-rw-r--r--", "./usr/share/man/man8/heddle.8.gz"),
        ("-rw-r--r--", "./usr/share/heddle/grafana/heddle.json"),
        (
            "-rw-r--r--",
            "./usr/share/heddle/prometheus/heddle.rules.yml",
        ),
        ("-rw-r--r--", "./usr/share/doc/heddle/DEPLOYING.md"),
        ("-rw-r--r--", "./usr/share/doc/heddle/copyright"),
    ] {
        let line = list.lines().find(|line| line.ends_with(path));
        let line = line.unwrap_or_else(|| panic!("{path} is missing:\n{list}"));
        assert!(
            line.starts_with(mode) && line.contains("root/root"),
            "{line}"
        );
    }
    let control = said(Command::new("dpkg-deb").arg("--field").arg(&package));
    assert!(control.contains("Package: heddle\n"), "{control}");

    // The packed program reads the packed settings, and the unit names both.
    let unpacked = dir.path().join("unpacked");
    said(
        Command::new("dpkg-deb")
            .arg("--raw-extract")
            .arg(&package)
            .arg(&unpacked),
    );
    let settings = unpacked.join("etc/heddle/heddle.toml");
    let checked = said(
        Command::new(unpacked.join("usr/bin/heddle"))
            .args(["serve", "--check", "--config"])
            .arg(&settings),
    );
    assert!(checked.contains("is right"), "{checked}");
    said(
        Command::new("md5sum")
            .args(["--check", "--quiet", "DEBIAN/md5sums"])
            .current_dir(&unpacked),
    );
    let unit = unpacked.join("usr/lib/systemd/system/heddle.service");
    let unit = fs::read_to_string(unit).expect("readable");
    is_right(&unit);
    for script in ["postinst", "prerm", "postrm"] {
        said(
            Command::new("sh")
                .arg("-n")
                .arg(unpacked.join("DEBIAN").join(script)),
        );
    }
}

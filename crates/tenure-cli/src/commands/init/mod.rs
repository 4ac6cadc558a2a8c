//! `tenure init`: makes the files that a store on a network needs.

mod certificates;

use std::env;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use nix::unistd::{Gid, Group, Uid, User};
use tenure_server::access::Secret;
use toml_edit::{DocumentMut, value};

use self::certificates::{Authority, Issued};
use crate::access_file::{AccessFileEdit, GrantText};
use crate::commands::context;
use crate::commands::token::bundle_text;
use crate::new_files::{self, Owner, folder_of, give, replace, write};
use crate::settings::contexts::default_path;
use crate::{exit, output};

/// The group of the service, which may read the files if it exists.
const GROUP: &str = "tenure";

/// Make the files of a store on a network: certificates, access file, and configuration
///
/// The command starts nothing and changes no existing file. It makes a certificate authority for
/// this store, a certificate, an access file with one administrator, the configuration of the
/// store, and the administrator's own context.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Name under which clients reach the store; may be repeated [default: this machine's]
    #[arg(long, value_name = "HOST")]
    name: Vec<String>,
    /// Directory for the files
    #[arg(long, value_name = "DIR", default_value = "/etc/tenure")]
    dir: PathBuf,
    /// Data directory of the store
    #[arg(long, value_name = "DIR", default_value = "/var/lib/tenure")]
    data_dir: PathBuf,
    /// Address that the store will listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:7400")]
    listen: SocketAddr,
    /// Name of the administrator [default: this user]
    #[arg(long, value_name = "NAME")]
    admin: Option<String>,
    /// File for the administrator's context [default: ~/.config/tenure/config.toml]
    #[arg(long, value_name = "FILE")]
    context_file: Option<PathBuf>,
    /// Only make a new certificate, by the authority in the directory. It is for the names of this
    /// command line, so repeat every --name; the store reloads it
    #[arg(long)]
    renew: bool,
    /// Succeed without a change if all files of the store exist already; for commands that run at
    /// each start of a container
    #[arg(long, conflicts_with = "renew")]
    if_missing: bool,
}

/// The files that the command makes.
struct Files {
    config: PathBuf,
    tls: PathBuf,
    ca: PathBuf,
    ca_key: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    access: PathBuf,
}

impl Init {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let files = Files::new(&self.dir);
        if self.renew {
            return self.renew(&files);
        }
        if self.if_missing && files.are_present() {
            return Ok(output::line(format_args!(
                "{} and the other files of the store exist already; nothing was changed",
                files.config.display()
            ))?);
        }
        let person = Person::find();
        let context_file = self.context_file.clone().or_else(|| person.context_file());
        let context_file = context_file
            .context("neither HOME nor XDG_CONFIG_HOME is set; name a file with --context-file")?;
        let names = self.names()?;
        files.check_none(&context_file)?;

        new_files::make_folder(&files.tls, 0o755, None)
            .context("run with sudo, or name another --dir")?;
        let authority = Authority::new()?;
        let issued = authority.issue(&names)?;
        write(&files.ca_key, &authority.key_pem(), 0o600)?;
        write(&files.ca, authority.pem(), 0o644)?;
        write(&files.certificate, &issued.pem, 0o644)?;
        let key = write(&files.key, &issued.key_pem, 0o600)?;
        let (access, secret) = self.write_access(&files.access, &person)?;
        write(&files.config, &self.config_text(&files)?, 0o644)?;
        let admin = self.admin.as_deref().unwrap_or(&person.name);
        self.write_context(&context_file, &person, &secret, authority.pem())?;
        share_with_group(&[(&key, &files.key), (&access, &files.access)])?;

        let names_text = names.join(", ");
        let listen = self.listen;
        output::line(format_args!(
            "{}  listens on {listen} with TLS\n\
             {}  ca.pem (until {})  ca.key  store.pem ({names_text}; until {})  store.key\n\
             {}  principals, their rights, and the hashes of their tokens\n\
             {}  your own token as {admin:?}, with all rights. This file is its only copy; if you lose it: tenure \
             token rotate {admin}\n\
             Next: tenure serve --config {}",
            files.config.display(),
            files.tls.display(),
            Authority::ends(),
            issued.ends,
            files.access.display(),
            context_file.display(),
            files.config.display(),
        ))?;
        Ok(())
    }

    fn renew(&self, files: &Files) -> anyhow::Result<()> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|error| {
                exit::bad_configuration(format!(
                    "can't read {}: {error}; run tenure init without --renew first",
                    path.display()
                ))
            })
        };
        let authority = Authority::open(read(&files.ca)?, &read(&files.ca_key)?)?;
        // Clients know the store by the names in its last certificate.
        let names = match self.name.is_empty() {
            true => certificates::names(&read(&files.certificate)?)?,
            false => self.names()?,
        };
        let Issued { pem, key_pem, ends } = authority.issue(&names)?;
        // The files are replaced one after the other. A store that reloads them between the two
        // steps keeps the previous certificate.
        let key = replace(&files.key, &key_pem, 0o600)?;
        share_with_group(&[(&key, &files.key)])?;
        replace(&files.certificate, &pem, 0o644)?;
        output::line(format_args!(
            "{}  {}; until {ends}; the store reloads it within 30 s, or on SIGHUP",
            files.certificate.display(),
            names.join(", ")
        ))?;
        Ok(())
    }

    /// Returns the names and addresses for the certificate.
    fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut names = self.name.clone();
        if names.is_empty() {
            let name = nix::unistd::gethostname().context("can't read the name of this machine")?;
            names.push(name.to_string_lossy().into_owned());
        }
        let address = match self.listen.ip() {
            address if address.is_unspecified() => own_address(),
            address => Some(address),
        };
        names.extend(address.map(|address| address.to_string()));
        names.extend(["localhost", "127.0.0.1", "::1"].map(String::from));
        let mut known = Vec::new();
        names.retain(|name| {
            let is_new = !known.contains(name);
            known.push(name.clone());
            is_new
        });
        Ok(names)
    }

    fn write_access(&self, path: &Path, person: &Person) -> anyhow::Result<(File, Secret)> {
        let secret = Secret::generate();
        let admin = self.admin.as_deref().unwrap_or(&person.name);
        let grant = GrantText {
            role: "admin".into(),
            namespace: Some("*".into()),
            prefix: None,
        };
        let mut edit = AccessFileEdit::create(path)?;
        edit.add_principal(admin, &[grant], &secret, None)?;
        Ok((edit.save()?, secret))
    }

    fn config_text(&self, files: &Files) -> anyhow::Result<String> {
        let path = |path: &Path| {
            let path = std::path::absolute(path)?;
            Ok::<_, io::Error>(path.to_string_lossy().into_owned())
        };
        let mut document = DocumentMut::new();
        document["serve"] = toml_edit::table();
        document["serve"]["listen"] = value(self.listen.to_string());
        document["serve"]["data_dir"] = value(path(&self.data_dir)?);
        document["access"] = toml_edit::table();
        document["access"]["file"] = value(path(&files.access)?);
        document["tls"] = toml_edit::table();
        document["tls"]["certificate"] = value(path(&files.certificate)?);
        document["tls"]["key"] = value(path(&files.key)?);
        Ok(format!(
            "# The lease store. `tenure config example` prints all keys.\n{document}"
        ))
    }

    fn write_context(
        &self,
        path: &Path,
        person: &Person,
        secret: &Secret,
        ca: &str,
    ) -> anyhow::Result<()> {
        let host = self.name.first().map_or("localhost", String::as_str);
        let server = format!("https://{host}:{}", self.listen.port());
        let bundle: DocumentMut = bundle_text("", &[server], Some(ca), secret).parse()?;
        let mut document = DocumentMut::new();
        context::add(&mut document, "default", &bundle);
        // Under sudo the file belongs to the person who runs the command and not to root.
        let owner = person.user.as_ref().map(Owner::from);
        new_files::make_folder(folder_of(path), 0o700, owner)?;
        let file = write(path, &document.to_string(), 0o600)?;
        owner
            .map_or(Ok(()), |owner| give(&file, owner))
            .with_context(|| format!("can't change the owner of {}", path.display()))
    }
}

impl Files {
    fn new(dir: &Path) -> Self {
        let tls = dir.join("tls");
        Self {
            config: dir.join("tenure.toml"),
            ca: tls.join("ca.pem"),
            ca_key: tls.join("ca.key"),
            certificate: tls.join("store.pem"),
            key: tls.join("store.key"),
            access: dir.join("access.toml"),
            tls,
        }
    }

    /// All files but the administrator's context.
    fn of_store(&self) -> impl Iterator<Item = &Path> {
        let files = [
            &self.config,
            &self.ca,
            &self.ca_key,
            &self.certificate,
            &self.key,
            &self.access,
        ];
        files.into_iter().map(PathBuf::as_path)
    }

    fn are_present(&self) -> bool {
        self.of_store().all(Path::exists)
    }

    /// Returns an error if one of the files exists. It is called before any file is written.
    fn check_none(&self, context_file: &Path) -> anyhow::Result<()> {
        let files = self.of_store().chain([context_file]);
        let mut present = files.filter(|path| path.symlink_metadata().is_ok());
        match present.next() {
            None => Ok(()),
            Some(path) if path == context_file => Err(exit::bad_configuration(format!(
                "{} exists already; name another file with --context-file. Nothing was changed",
                path.display()
            ))),
            Some(path) => Err(exit::bad_configuration(format!(
                "{} exists already; --renew makes a new certificate, and --dir names another directory. Nothing \
                 was changed",
                path.display()
            ))),
        }
    }
}

/// The person who runs the command, also under sudo.
struct Person {
    name: String,
    /// The user who called sudo; `None` without sudo.
    user: Option<User>,
}

impl Person {
    fn find() -> Self {
        let sudo = env::var("SUDO_USER")
            .ok()
            .filter(|_| Uid::effective().is_root());
        let user = sudo.and_then(|name| User::from_name(&name).ok().flatten());
        let own = || User::from_uid(Uid::current()).ok().flatten();
        let name = match &user {
            Some(user) => user.name.clone(),
            None => own().map_or_else(|| "admin".into(), |user| user.name),
        };
        Self { name, user }
    }

    fn context_file(&self) -> Option<PathBuf> {
        match &self.user {
            Some(user) => Some(user.dir.join(".config/tenure/config.toml")),
            None => default_path(),
        }
    }
}

/// Lets the group of the service read these open files, if that group exists and this user may change
/// the group of a file.
fn share_with_group(files: &[(&File, &Path)]) -> anyhow::Result<()> {
    let group = Group::from_name(GROUP).ok().flatten();
    let Some(gid) = group.map(|group: Group| Gid::as_raw(group.gid)) else {
        return Ok(());
    };
    if !Uid::effective().is_root() {
        return Ok(());
    }
    for (file, path) in files {
        fchown(file, None, Some(gid))
            .and_then(|()| file.set_permissions(Permissions::from_mode(0o640)))
            .with_context(|| format!("can't change the group of {}", path.display()))?;
    }
    Ok(())
}

/// Returns the address at which other machines most likely reach this machine. No packet is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // The address is reserved for documentation (RFC 5737). Only the route to the address matters.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified()).then_some(address)
}

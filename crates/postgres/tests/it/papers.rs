//! Certificates of servers and clients.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use steadfast_postgres::{
    Options, testing,
    testing::{Server, Setup},
};

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Who signs others' certificates.
pub(crate) fn issuer() -> Issuer {
    CertifiedIssuer::self_signed(root(&[]), KeyPair::generate().unwrap()).unwrap()
}

/// Of a certificate that can sign others, for these hosts.
pub(crate) fn root(hosts: &[&str]) -> CertificateParams {
    let mut params = named(hosts);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// Of a certificate for these hosts.
pub(crate) fn named(hosts: &[&str]) -> CertificateParams {
    CertificateParams::new(hosts.iter().map(|&host| host.into()).collect::<Vec<String>>()).unwrap()
}

/// The same, that says more.
pub(crate) fn common_name(mut params: CertificateParams, name: &str) -> CertificateParams {
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// The certificate and the key, as PEM.
pub(crate) fn signed(params: &CertificateParams, by: &Issuer) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

pub(crate) fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path
}

/// Whether a connection is encrypted, or why there is none.
pub(crate) async fn is_encrypted(options: &Options) -> Result<bool, String> {
    let sql = "DO $$ BEGIN PERFORM 1 FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl; \
               IF NOT FOUND THEN RAISE 'plain'; END IF; END $$";
    match testing::sql(options, sql).await {
        Ok(()) => Ok(true),
        Err(error) if error.to_string().contains("plain") => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// A server with a certificate, and somebody who wants to get to it, with a home that is empty at first.
pub(crate) struct Door {
    pub(crate) server: Server,
    pub(crate) home: tempfile::TempDir,
}

impl Door {
    pub(crate) fn new(setup: Setup, (certificate, key): &(String, String)) -> Door {
        let server = setup.tls(certificate, key).start().unwrap();
        Door { server, home: tempfile::tempdir().unwrap() }
    }

    /// A file in the home.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        file(self.home.path(), name, text)
    }

    /// Whether a connection to this host is encrypted, or why there is none.
    pub(crate) async fn open(&self, host: &str, parameters: &str) -> Result<bool, String> {
        let port = self.server.port();
        let address = format!("postgres://steadfast@{host}:{port}/postgres?{parameters}");
        is_encrypted(&Options::new(address).schema("x").home(self.home.path())).await
    }

    /// It is encrypted.
    pub(crate) async fn opens(&self, host: &str, parameters: &str) {
        assert_eq!(self.open(host, parameters).await, Ok(true), "{host} {parameters}");
    }

    /// There is none, for a reason that has these words.
    pub(crate) async fn refuses(&self, host: &str, parameters: &str, why: &str) {
        let error = self.open(host, parameters).await.unwrap_err();
        assert!(error.contains(why), "{host} {parameters}: {error}");
    }
}

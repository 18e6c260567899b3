//! TLS, by rustls.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::ClientConfig;
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName,
    pem::{Error as PemError, PemObject},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};

use crate::{
    OpenError,
    trust::{Trust, Verify},
};

/// Certificates and keys: what was said of them, and where else to look.
pub(crate) struct Papers {
    pub(crate) root: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) home: Option<PathBuf>,
}

impl Papers {
    /// Whether the roots are to be those of the system.
    pub(crate) fn is_system(&self) -> bool {
        self.root.as_deref() == Some("system")
    }

    /// The file of roots.
    pub(crate) fn root(&self) -> Option<PathBuf> {
        match self.is_system() {
            true => None,
            false => named(self.root.as_ref()).or_else(|| self.at_home("root.crt")),
        }
    }

    /// Where libpq looks for what nobody has named, if it is there.
    fn at_home(&self, file: &str) -> Option<PathBuf> {
        let path = self.home.as_ref()?.join(".postgresql").join(file);
        path.exists().then_some(path)
    }

    /// The files with the client's certificate and its key.
    fn client(&self) -> Result<Option<(PathBuf, PathBuf)>, OpenError> {
        let cert = named(self.cert.as_ref()).or_else(|| self.at_home("postgresql.crt"));
        let key = named(self.key.as_ref()).or_else(|| self.at_home("postgresql.key"));
        match (cert, key) {
            (Some(cert), Some(key)) => Ok(Some((cert, key))),
            (Some(path), None) => Err(OpenError::File {
                path,
                detail: "there is no key for this certificate: give sslkey as well".into(),
            }),
            (None, Some(path)) if self.key.is_some() => Err(OpenError::File {
                path,
                detail: "there is no certificate for this key: give sslcert as well".into(),
            }),
            (None, _) => Ok(None),
        }
    }
}

fn named(path: Option<&String>) -> Option<PathBuf> {
    path.map(PathBuf::from)
}

/// How connections are encrypted.
#[derive(Clone)]
pub(crate) struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    pub(crate) fn none() -> Tls {
        Tls(None)
    }

    pub(crate) fn new(trust: Trust, papers: &Papers) -> Result<Tls, OpenError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let failed = |e: rustls::Error| OpenError::Failed(format!("TLS: {e}"));
        let verify = Verify::new(trust, papers, Arc::clone(&provider))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verify));
        let mut config = match papers.client()? {
            Some((cert, key)) => {
                let chain = certificates(&cert)?;
                let unusable = |detail: String| OpenError::File { path: key.clone(), detail };
                if others_have_access(&key) {
                    return Err(unusable(
                        "others have access to this key: let only its owner read it (chmod 600)"
                            .into(),
                    ));
                }
                let der = PrivateKeyDer::from_pem_file(&key);
                let der = der.map_err(|e| unusable(e.to_string()))?;
                builder.with_client_auth_cert(chain, der).map_err(|e| unusable(e.to_string()))?
            }
            None => builder.with_no_client_auth(),
        };
        // A server that is spoken to without a question first wants to hear this.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls(Some(Arc::new(config))))
    }
}

/// As libpq has it: a key of root's may be read by its group as well, so that programs can share it.
#[cfg(unix)]
fn others_have_access(key: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let too_much = |uid: u32| if uid == 0 { 0o037 } else { 0o077 };
    std::fs::metadata(key).is_ok_and(|file| file.mode() & too_much(file.uid()) != 0)
}

#[cfg(not(unix))]
fn others_have_access(_: &Path) -> bool {
    false
}

/// Those in a file, of which there must be one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let wrong = |detail: String| OpenError::File { path: path.into(), detail };
    let found = read().map_err(|e: PemError| wrong(e.to_string()))?;
    match found.is_empty() {
        true => Err(wrong("there is no certificate in it".into())),
        false => Ok(found),
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Stream;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Connect> {
        Ok(Connect { config: self.0.clone(), name: domain.to_owned() })
    }
}

/// The beginning of one encrypted connection.
pub(crate) struct Connect {
    config: Option<Arc<ClientConfig>>,
    name: String,
}

impl TlsConnect<Socket> for Connect {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or_else(|| io::Error::other("TLS is switched off"))?;
            let name = ServerName::try_from(self.name).map_err(io::Error::other)?;
            let connector = tokio_rustls::TlsConnector::from(config);
            Ok(Stream(Box::new(connector.connect(name, socket).await?)))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Stream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}

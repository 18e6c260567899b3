//! TLS, by rustls.

use std::{
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, UnixTime,
    pem::{Error as PemError, PemObject},
};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream},
};

use crate::OpenError;

/// Whom to take for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Whoever answers: nobody listens, but nobody knows who it is.
    Anybody,
    /// Whoever has a certificate of a root that we trust.
    Root,
    /// And whose certificate has its name.
    NameToo,
}

/// How connections are encrypted.
#[derive(Clone)]
pub(crate) struct Tls(Option<Arc<ClientConfig>>);

impl Tls {
    pub(crate) fn none() -> Tls {
        Tls(None)
    }

    pub(crate) fn new(
        trust: Trust,
        root: Option<String>,
        cert: Option<String>,
        key: Option<String>,
    ) -> Result<Tls, OpenError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let failed = |e: rustls::Error| OpenError::Failed(format!("TLS: {e}"));
        let verifier = Verify { trust, known: known(trust, root, &provider)?, provider };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&verifier.provider))
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match (cert, key) {
            (Some(cert), Some(key)) => {
                let chain = certificates(Path::new(&cert))?;
                let key = PrivateKeyDer::from_pem_file(&key).map_err(|e| unreadable(&key, &e))?;
                builder.with_client_auth_cert(chain, key).map_err(failed)?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(OpenError::Address("sslcert and sslkey go together".into())),
        };
        Ok(Tls(Some(Arc::new(config))))
    }
}

fn unreadable(path: &str, error: &PemError) -> OpenError {
    OpenError::File { path: path.into(), detail: error.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let wrong = |detail: String| OpenError::File { path: path.into(), detail };
    let found = read().map_err(|e: PemError| wrong(e.to_string()))?;
    match found.is_empty() {
        true => Err(wrong("there is no certificate in it".into())),
        false => Ok(found),
    }
}

/// Who knows the roots that we trust.
fn known(
    trust: Trust,
    root: Option<String>,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ServerCertVerifier>>, OpenError> {
    if trust == Trust::Anybody {
        return Ok(None);
    }
    let home = std::env::var_os("HOME").map(|h| Path::new(&h).join(".postgresql/root.crt"));
    let file = match root.as_deref() {
        Some("system") => None,
        Some(path) => Some(path.into()),
        // Where libpq looks. It gives up without it; the roots of the system are no worse.
        None => home.filter(|path| path.is_file()),
    };
    let failed = |e: String| OpenError::Failed(format!("TLS: {e}"));
    let Some(file) = file else {
        let system = Verifier::new(Arc::clone(provider)).map_err(|e| failed(e.to_string()))?;
        return Ok(Some(Arc::new(system)));
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&file)?);
    let built =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    Ok(Some(built.map_err(|e| failed(e.to_string()))?))
}

#[derive(Debug)]
struct Verify {
    trust: Trust,
    known: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verify {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(known) = &self.known else { return Ok(ServerCertVerified::assertion()) };
        let found =
            known.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match found {
            // The chain was found good before the name was looked at.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.trust == Trust::Root => Ok(ServerCertVerified::assertion()),
            found => found,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
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

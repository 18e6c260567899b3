//! Whom to take for the server.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::CryptoProvider,
    server::ParsedCertificate,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use rustls_platform_verifier::Verifier;

use crate::{
    OpenError,
    tls::{Papers, certificates},
};

/// Whom to take for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Whoever answers: nobody listens, but nobody knows who it is.
    Anybody,
    /// Whoever has a certificate of a root that we trust, if we have one.
    RootIfAny,
    /// Whoever has a certificate of a root that we trust.
    Root,
    /// And whose certificate has its name.
    NameToo,
}

/// Looks at the certificate of a server.
#[derive(Debug)]
pub(crate) struct Verify {
    trust: Trust,
    /// Who knows the roots that we trust.
    known: Option<Arc<dyn ServerCertVerifier>>,
    /// The roots of a file.
    own: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verify {
    pub(crate) fn new(
        trust: Trust,
        papers: &Papers,
        provider: Arc<CryptoProvider>,
    ) -> Result<Verify, OpenError> {
        let failed = |e: String| OpenError::Failed(format!("TLS: {e}"));
        let (known, own): (Option<Arc<dyn ServerCertVerifier>>, _) = match (trust, papers.root()) {
            (Trust::Anybody, _) | (Trust::RootIfAny, None) => (None, Vec::new()),
            // Anybody can have a certificate of one of the system's roots: without a name it says nothing.
            (Trust::Root, None) => {
                return Err(OpenError::Address(
                    "sslmode=verify-ca needs a root: name its file by sslrootcert, or put it at \
                     ~/.postgresql/root.crt; verify-full goes without, by the roots of the system"
                        .into(),
                ));
            }
            // libpq gives up here unless it is told `system`. With the name these are as good as any.
            (Trust::NameToo, None) => {
                let system = Verifier::new(Arc::clone(&provider));
                (Some(Arc::new(system.map_err(|e| failed(e.to_string()))?)), Vec::new())
            }
            (_, Some(file)) => {
                let own = certificates(&file)?;
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(own.iter().cloned());
                let roots = Arc::new(roots);
                let built =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                (Some(built.build().map_err(|e| failed(e.to_string()))?), own)
            }
        };
        Ok(Verify { trust, known, own, provider })
    }

    /// What becomes of a chain that was not good, or whose name was not.
    fn judge(
        &self,
        error: rustls::Error,
        end_entity: &CertificateDer<'_>,
        name: &ServerName<'_>,
    ) -> Result<(), rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let rustls::Error::InvalidCertificate(why) = &error else { return Err(error) };
        match why {
            // The chain was found good before the name was looked at.
            NotValidForName | NotValidForNameContext { .. } if self.trust != Trust::NameToo => {
                Ok(())
            }
            NotValidForNameContext { presented, .. } if presented.is_empty() => {
                Err(in_words(NAMELESS))
            }
            // PostgreSQL's manual makes a certificate that is its own root, and can sign others. That is
            // looked at after the dates, and before anything else.
            CertificateError::Other(OtherError(inner)) if is_root_as_server(&**inner) => {
                if !self.own.contains(end_entity) {
                    return Err(in_words(SIGNS_OTHERS));
                }
                if self.trust != Trust::NameToo {
                    return Ok(());
                }
                let parsed = ParsedCertificate::try_from(end_entity)?;
                let wrong = verify_server_name(&parsed, name).err();
                wrong.map_or(Ok(()), |error| self.judge(error, end_entity, name))
            }
            _ => Err(error),
        }
    }
}

/// libpq looks at the common name then, which hardly anybody else does any more.
const NAMELESS: &str = "the certificate names no host in subjectAltName, and a common name does not count: \
                        give the server one that does, or use sslmode=verify-ca with a root of your own";

const SIGNS_OTHERS: &str = "the certificate is one that signs others (CA:TRUE), and not in the file of roots: \
                            such a one is trusted only if it is there itself";

fn is_root_as_server(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}

fn in_words(text: &'static str) -> rustls::Error {
    rustls::Error::Other(OtherError(Arc::new(std::io::Error::other(text))))
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
        known
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map(drop)
            .or_else(|error| self.judge(error, end_entity, server_name))
            .map(|()| ServerCertVerified::assertion())
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

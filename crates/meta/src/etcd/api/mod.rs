//! One member of an etcd cluster over gRPC: the calls that the store needs, and how they fail.
//!
//! Invariants: a call is one attempt, whose future may be dropped at any time; the channel connects by itself,
//! at first use and after a loss. Every request demands that the member has a leader, so that a member which was
//! cut off says so, instead of keeping watches that hear nothing.
//!
//! Must not know: the farm's keys, other members, when something is tried again.

pub(super) mod messages;

use std::time::Duration;

use futures_util::stream;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use self::messages::{
    AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseRequest, LeaseResponse,
    LeaseRevokeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, TxnRequest,
    TxnResponse, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, WatchWish,
};

/// The largest answer that is read; a farm's state is some kilobytes.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Requests for progress that wait to be sent on a watch; one is under way at a time.
const WATCH_REQUESTS_MAX: usize = 4;

/// How a call fails.
#[derive(Debug)]
pub(super) enum Failure {
    /// Neither URL nor certificates make a connection.
    Unusable(tonic::transport::Error),
    /// The member's answer, or why there is none.
    Status(Box<Status>),
    /// The lease that was to be renewed is gone.
    LeaseLost,
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Status(Box::new(status))
    }
}

/// How a member is reached.
pub(super) struct Options<'a> {
    pub url: &'a str,
    pub connect_timeout: Duration,
    /// After so long without a byte the other end is asked for a sign of life, and given up after so long.
    pub keep_alive: (Duration, Duration),
    /// For `https://`.
    pub tls: Option<Tls>,
    pub account: Option<(&'a str, &'a str)>,
}

/// PEM files' contents.
#[derive(Default)]
pub(super) struct Tls {
    pub authority: Option<Vec<u8>>,
    /// The certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// A member. Clones share its connection.
#[derive(Clone)]
pub(super) struct Client {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
}

/// A watch on one member.
pub(super) struct WatchStream {
    responses: Streaming<WatchResponse>,
    requests: mpsc::Sender<WatchRequest>,
}

impl Client {
    /// A client of the member, logged in where it has an account. Without one nothing is sent yet.
    pub async fn connect(options: Options<'_>) -> Result<Client, Failure> {
        let (interval, patience) = options.keep_alive;
        let endpoint = Endpoint::from_shared(options.url.to_owned()).map_err(Failure::Unusable)?;
        let mut endpoint = endpoint
            .connect_timeout(options.connect_timeout)
            .http2_keep_alive_interval(interval)
            .keep_alive_timeout(patience)
            .keep_alive_while_idle(false);
        if let Some(tls) = options.tls {
            let mut config = ClientTlsConfig::new();
            if let Some(authority) = tls.authority {
                config = config.ca_certificate(Certificate::from_pem(authority));
            }
            if let Some((certificate, key)) = tls.identity {
                config = config.identity(Identity::from_pem(certificate, key));
            }
            endpoint = endpoint.tls_config(config).map_err(Failure::Unusable)?;
        }
        let mut client = Client {
            channel: endpoint.connect_lazy(),
            token: None,
        };
        if let Some((name, password)) = options.account {
            let request = AuthenticateRequest {
                name: name.to_owned(),
                password: password.to_owned(),
            };
            let answer: AuthenticateResponse = client
                .unary("/etcdserverpb.Auth/Authenticate", request)
                .await?;
            let token = answer.token.parse();
            let token = token.map_err(|_| Status::internal("the member's token is no text"))?;
            client.token = Some(token);
        }
        Ok(client)
    }

    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Failure> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    pub async fn put(&self, request: PutRequest) -> Result<PutResponse, Failure> {
        self.unary("/etcdserverpb.KV/Put", request).await
    }

    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Failure> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    /// A new lease of so many seconds; the member may give more.
    pub async fn lease_grant(&self, ttl_s: i64) -> Result<LeaseResponse, Failure> {
        let request = LeaseGrantRequest { ttl: ttl_s };
        self.unary("/etcdserverpb.Lease/LeaseGrant", request).await
    }

    pub async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse, Failure> {
        let request = LeaseRequest { id };
        self.unary("/etcdserverpb.Lease/LeaseRevoke", request).await
    }

    /// What is left of a lease.
    pub async fn lease_time_to_live(&self, id: i64) -> Result<LeaseResponse, Failure> {
        let request = LeaseRequest { id };
        self.unary("/etcdserverpb.Lease/LeaseTimeToLive", request)
            .await
    }

    /// Renews a lease once. In the protocol that is a stream, of one request here.
    ///
    /// # Errors
    /// [`Failure::LeaseLost`] when it has ended already.
    pub async fn lease_keep_alive(&self, id: i64) -> Result<(), Failure> {
        let requests = stream::iter([LeaseRequest { id }]);
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let mut responses: Streaming<LeaseResponse> = self.streaming(path, requests).await?;
        match responses.message().await? {
            Some(response) if response.ttl > 0 => Ok(()),
            Some(_) => Err(Failure::LeaseLost),
            None => Err(Status::unavailable("a renewal without an answer").into()),
        }
    }

    /// Opens a watch. Its first response says that it stands, or why not.
    pub async fn watch(&self, create: WatchCreateRequest) -> Result<WatchStream, Failure> {
        let (requests, to_send) = mpsc::channel(WATCH_REQUESTS_MAX);
        let first = WatchRequest {
            wish: Some(WatchWish::Create(create)),
        };
        let later = stream::unfold(to_send, |mut to_send| async {
            let next: WatchRequest = to_send.recv().await?;
            Some((next, to_send))
        });
        let all = stream::StreamExt::chain(stream::iter([first]), later);
        let responses = self.streaming("/etcdserverpb.Watch/Watch", all).await?;
        Ok(WatchStream {
            responses,
            requests,
        })
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(path);
        let answer = grpc
            .unary(self.request(request), path, ProstCodec::default())
            .await;
        Ok(answer?.into_inner())
    }

    async fn streaming<Q, A>(
        &self,
        path: &'static str,
        requests: impl stream::Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(path);
        let answer = grpc
            .streaming(self.request(requests), path, ProstCodec::default())
            .await;
        Ok(answer?.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Failure> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        grpc.ready()
            .await
            .map_err(|error| Status::from_error(error.into()))?;
        Ok(grpc)
    }

    fn request<T>(&self, content: T) -> Request<T> {
        let mut request = Request::new(content);
        let metadata = request.metadata_mut();
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        request
    }
}

impl WatchStream {
    /// The next response; `None` when the member has ended the watch. Cancellation-safe.
    pub async fn message(&mut self) -> Result<Option<WatchResponse>, Failure> {
        Ok(self.responses.message().await?)
    }

    /// Has the member say how far it is. False when the watch is over.
    pub async fn request_progress(&self) -> bool {
        let progress = WatchRequest {
            wish: Some(WatchWish::Progress(WatchProgressRequest {})),
        };
        self.requests.send(progress).await.is_ok()
    }
}
